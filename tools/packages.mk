# Debian packages by purpose. No version is named: what the release has is what is used.
PACKAGES_BUILD = gcc libc6-dev meson ninja-build pkg-config scdoc \
	libseccomp-dev libjansson-dev libcyaml-dev libyaml-dev libsqlite3-dev libuv1-dev \
	libssl-dev libarchive-dev libcurl4-openssl-dev
PACKAGES_RUN = python3
PACKAGES_LINT = clang-tidy clang-format cppcheck shellcheck
PACKAGES_TEST = $(PACKAGES_LINT) libcmocka-dev python3-pytest python3-pytest-xdist clang "libclang-rt-dev|libclang-rt-14-dev" \
	iproute2 procps curl zstd python3-jsonschema
PACKAGES_LANGUAGES = python3 python3-numpy python3-pandas python3-matplotlib nodejs bash dash \
	gcc g++ libc6-dev golang-go rustc default-jdk-headless ruby perl php-cli lua5.4 r-base-core \
	sqlite3 gawk
# Debian's kernel in an emulated machine, and container engines, to test where this one differs.
PACKAGES_GUEST = qemu-system-x86 busybox-static systemd
PACKAGES_NESTED = docker.io podman crun uidmap
# CPython's own tests. Its name has a version in releases that lack the first.
PACKAGES_COMPAT = python3 "libpython3-testsuite|libpython3.13-testsuite|libpython3.11-testsuite"
PACKAGES_BENCH = bubblewrap firejail crun podman docker.io
