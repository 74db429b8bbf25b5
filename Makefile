# hotcell: `make run` and `make test` are all that a newcomer needs; `make help` lists the rest.
.DEFAULT_GOAL := build

BUILD    ?= build
SANITIZED = build-san
PREFIX   ?= /usr/local
DESTDIR  ?=
export DEBIAN_FRONTEND = noninteractive

include tools/packages.mk

# Says nothing and asks for nothing when all of $(1) is there already.
define install_missing
	@tools/install-missing $(1)
endef

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: deps test-deps optional-deps languages
deps:
	$(call install_missing,$(PACKAGES_BUILD) $(PACKAGES_RUN))
test-deps: deps
	$(call install_missing,$(PACKAGES_TEST) $(PACKAGES_LANGUAGES) $(PACKAGES_GUEST) $(PACKAGES_NESTED))
optional-deps:
	@tools/fetch-bun $(BUILD)/bun
languages: deps ## install every listed language and Python's data stack
	$(call install_missing,$(PACKAGES_LANGUAGES))

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --buildtype=release --prefix=$(PREFIX) >$(BUILD)-setup.log 2>&1 \
		|| { cat $(BUILD)-setup.log; exit 1; }
	@rm -f $(BUILD)-setup.log

$(SANITIZED)/build.ninja:
	@meson setup $(SANITIZED) --buildtype=debugoptimized -Dsanitize=true >$(SANITIZED)-setup.log 2>&1 \
		|| { cat $(SANITIZED)-setup.log; exit 1; }
	@rm -f $(SANITIZED)-setup.log

.PHONY: build build-san
build: deps $(BUILD)/build.ninja ## build/hotcell and build/hotcell-warden
	@ninja -C $(BUILD) --quiet
build-san: deps $(SANITIZED)/build.ninja ## the same with ASan and UBSan
	@ninja -C $(SANITIZED) --quiet

.PHONY: run
run: build ## install what is missing, build, run a first snippet, start the service
	@tools/first-run $(BUILD)/hotcell

.PHONY: test test-guest test-svm test-systemd test-nested lint
test: test-deps build build-san optional-deps ## everything that must pass
	@tools/run-tests
test-guest: test-deps build ## on another kernel, with cgroup version 2 or none, in an emulated machine
	@tools/guest
test-svm: test-deps build ## vm cells on a processor that makes the rings (SVM), in an emulated machine
	@tools/guest --svm
test-systemd: test-deps build ## the installed units, in an emulated machine that systemd runs
	@tools/guest --systemd
test-nested: test-deps build ## inside docker and podman containers
	@tools/nested
lint: build ## layers, clang-tidy, cppcheck, formatting, shell scripts
	$(call install_missing,$(PACKAGES_LINT))
	@tools/lint $(BUILD)

.PHONY: compat
compat: build ## CPython's own tests in vm cells; writes docs/COMPAT.md
	$(call install_missing,$(PACKAGES_COMPAT))
	@tools/compat --hotcell $(BUILD)/hotcell

.PHONY: bench fuzz
bench: test-deps build ## speed, as ratios against peers in the same run
	$(call install_missing,$(PACKAGES_BENCH))
	@bench/run
fuzz: test-deps ## fuzz every parser of hostile bytes (FUZZ_SECONDS each, default 60)
	@tools/fuzz

.PHONY: install clean
install: build ## into $(DESTDIR)$(PREFIX)
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C $(BUILD) --quiet
clean: ## remove what was built
	rm -rf $(BUILD) $(SANITIZED) build-fuzz build-guest
