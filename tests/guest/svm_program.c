/* svm_program WHAT: a guest that leans on what the processor does for a vm cell, and says "right" if
 * all of it was. Built static and dynamic; run by svm.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { PAGE = 4096, THREADS = 4, ROUNDS = 20000 };

#define MUST(holds)                                                                                \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			printf("not so: %s (line %d)\n", #holds, __LINE__);                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void hello(void)
{
	MUST(getpid() > 0 && getppid() > 0);
}

/* ---- threads: taken from each other by the clock, with registers of their own ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static long shared_sum;
static __thread long own_sum;
static volatile bool may_stop;

static void *add(void *context)
{
	long step = (long)(intptr_t)context;

	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		shared_sum += step;
		pthread_mutex_unlock(&mutex);
		own_sum += step;
	}
	return (void *)(intptr_t)own_sum;
}

/* Never leaves by itself: vector registers that must still be its own after every turn of others. */
static void *keep_vectors(void *context)
{
	uint64_t mark = (uint64_t)(uintptr_t)context * 0x0101010101010101ULL;
	uint64_t found = mark;

	while (!may_stop && found == mark)
		__asm__ volatile("movq %1, %%xmm7; mov $20000, %%ecx; 1: dec %%ecx; jnz 1b;"
				 "movq %%xmm7, %0"
				 : "=r"(found)
				 : "r"(mark)
				 : "rcx", "xmm7");
	return (void *)(uintptr_t)(found == mark);
}

static void *signal_turn(void *context)
{
	(void)context;
	pthread_mutex_lock(&mutex);
	shared_sum = -1;
	pthread_cond_signal(&turn);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	pthread_t keeper[2];
	void *result;
	long expected = 0;

	for (long i = 0; i < 2; i++)
		pthread_create(&keeper[i], NULL, keep_vectors, (void *)(i + 1));
	for (long i = 0; i < THREADS; i++) {
		MUST(pthread_create(&thread[i], NULL, add, (void *)(i + 1)) == 0);
		expected += (i + 1) * ROUNDS;
	}
	for (long i = 0; i < THREADS; i++) {
		MUST(pthread_join(thread[i], &result) == 0);
		MUST((long)(intptr_t)result == (i + 1) * ROUNDS);
	}
	MUST(shared_sum == expected);
	may_stop = true;
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(keeper[i], &result) == 0 && result);
	pthread_mutex_lock(&mutex);
	pthread_create(&thread[0], NULL, signal_turn, NULL);
	while (shared_sum != -1)
		pthread_cond_wait(&turn, &mutex);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread[0], NULL);
}

/* ---- faults that a program handles ---- */

static sigjmp_buf back;
static void *volatile fault_address;
static volatile int fault_code;
static uint8_t *volatile to_open;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	fault_address = info->si_addr;
	fault_code = info->si_code;
	if (number == SIGSEGV && to_open && info->si_addr >= (void *)to_open &&
		info->si_addr < (void *)(to_open + PAGE)) {
		/* And again, at the same instruction. */
		mprotect(to_open, PAGE, PROT_READ | PROT_WRITE);
		to_open = NULL;
		return;
	}
	siglongjmp(back, number);
}

static void catch_faults(void)
{
	static const int all[] = { SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGBUS };
	static char stack[65536];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	sigaltstack(&alternative, NULL);
	for (size_t i = 0; i < COUNT(all); i++)
		sigaction(all[i], &action, NULL);
}

#define SIGNAL_OF(statement)                                                                       \
	({                                                                                         \
		volatile int number_ = sigsetjmp(back, 1);                                         \
		if (number_ == 0)                                                                  \
			statement;                                                                 \
		number_;                                                                           \
	})

static int overflow_stack(int depth)
{
	volatile char large[PAGE];

	large[0] = (char)depth;
	return overflow_stack(depth + 1) + large[0];
}

static void signals(void)
{
	volatile int *nowhere = (volatile int *)8;
	uint8_t *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	catch_faults();
	MUST(SIGNAL_OF(*nowhere = 1) == SIGSEGV && fault_address == (void *)nowhere &&
		fault_code == SEGV_MAPERR);
	MUST(SIGNAL_OF(page[1] = 1) == SIGSEGV && fault_address == page + 1 &&
		fault_code == SEGV_ACCERR);
	MUST(SIGNAL_OF(__asm__ volatile("ud2")) == SIGILL);
	MUST(SIGNAL_OF(__asm__ volatile("int3")) == SIGTRAP);
	MUST(SIGNAL_OF(__asm__ volatile("xor %%ecx, %%ecx; div %%ecx" ::
						: "rax", "rcx", "rdx")) == SIGFPE);
	MUST(SIGNAL_OF(overflow_stack(0)) == SIGSEGV);
	to_open = page;
	page[7] = 5;
	MUST(page[7] == 5 && !to_open);
}

/* ---- page tables that change under the program ---- */

static void guards(void)
{
	size_t pages = 1100; /* more than two blocks, so that large entries are split */
	uint8_t *at = mmap(
		NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	catch_faults();
	MUST(at != MAP_FAILED);
	for (size_t i = 0; i < pages; i++)
		at[i * PAGE] = (uint8_t)i;
	for (size_t i = 0; i < pages; i += 7) {
		uint8_t *page = at + i * PAGE;

		MUST(mprotect(page, PAGE, PROT_NONE) == 0);
		MUST(SIGNAL_OF((void)*(volatile uint8_t *)page) == SIGSEGV);
		MUST(mprotect(page, PAGE, PROT_READ) == 0 && *page == (uint8_t)i);
		MUST(SIGNAL_OF(*(volatile uint8_t *)page = 1) == SIGSEGV);
		MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
		*page = (uint8_t)i;
	}
	for (size_t i = 0; i < pages; i++)
		MUST(at[i * PAGE] == (uint8_t)i);
	/* Code that is written, run, and may then not be run any more. */
	memcpy(at, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov $42, %eax; ret */
	MUST(mprotect(at, PAGE, PROT_READ | PROT_EXEC) == 0);
	MUST(((int (*)(void))at)() == 42);
	MUST(mprotect(at, PAGE, PROT_READ) == 0);
	MUST(SIGNAL_OF(((int (*)(void))at)()) == SIGSEGV);
	/* Other memory at the same place. */
	for (int i = 0; i < 50; i++) {
		MUST(mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		MUST(at[0] == 0 && at[600 * PAGE] == 0 && at[(pages - 1) * PAGE] == 0);
		at[0] = at[600 * PAGE] = at[(pages - 1) * PAGE] = 1;
	}
}

/* ---- calls that the stub answers, into memory that is not there yet ---- */

static void stub(void)
{
	uint8_t *large = mmap(NULL, 1UL << 30, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	MUST(large != MAP_FAILED);
	for (size_t i = 0; i < 64; i++) {
		struct timespec *now = (struct timespec *)(large + (i << 22) + PAGE - 8);
		uint64_t kept[6];
		long result;

		/* What a function must leave as it was, is as it was. */
		__asm__ volatile("mov $11, %%rbx; mov $12, %%r12; mov $13, %%r13; mov $14, %%r14;"
				 "mov $15, %%r15; syscall; mov %%rbx, 0(%4); mov %%r12, 8(%4);"
				 "mov %%r13, 16(%4); mov %%r14, 24(%4); mov %%r15, 32(%4)"
				 : "=a"(result)
				 : "a"(SYS_clock_gettime), "D"(CLOCK_MONOTONIC), "S"(now), "r"(kept)
				 : "rbx", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
		MUST(result == 0 && now->tv_sec > 0);
		MUST(kept[0] == 11 && kept[1] == 12 && kept[2] == 13 && kept[3] == 14 &&
			kept[4] == 15);
	}
	MUST(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 0x1000) == -1 && errno == EFAULT);
}

/* The stub's clock and the VMM's are one. */
static void clocks(void)
{
	struct timespec before;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &before);
	for (int i = 0; i < 200; i++) {
		long seconds = syscall(SYS_time, NULL);

		clock_gettime(CLOCK_REALTIME, &now);
		MUST(now.tv_sec >= seconds - 2 && now.tv_sec <= seconds + 60);
		if (i % 50 == 0)
			usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
		MUST(now.tv_sec > before.tv_sec ||
			(now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec));
		before = now;
	}
}

static void children(void)
{
	int shared = 1;

	for (int i = 0; i < 5; i++) {
		int status;
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0) {
			shared = 2;
			_exit(shared + i);
		}
		MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 2 + i &&
			shared == 1);
		pid = vfork();
		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
			_exit(1);
		}
		MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} all[] = { { "hello", hello }, { "threads", threads }, { "signals", signals },
		{ "guards", guards }, { "stub", stub }, { "clocks", clocks },
		{ "children", children } };

	for (size_t i = 0; i < COUNT(all) && argc > 1; i++)
		if (strcmp(all[i].name, argv[1]) == 0) {
			all[i].function();
			puts("right");
			return 0;
		}
	return 2;
}
