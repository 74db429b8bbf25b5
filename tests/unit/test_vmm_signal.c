/* The kernel's header and the C library's name some things alike: the kernel's get other names here. */
#define _fpx_sw_bytes kernel_fpx_sw_bytes
#define _fpreg        kernel_fpreg
#define _fpxreg       kernel_fpxreg
#define _xmmreg       kernel_xmmreg
#define _fpstate      kernel_fpstate
#define _xstate       kernel_xstate
#define _ymmh_state   kernel_ymmh_state
#define sigcontext    kernel_sigcontext
#include <asm/sigcontext.h>
#undef _fpx_sw_bytes
#undef _fpreg
#undef _fpxreg
#undef _xmmreg
#undef _fpstate
#undef _xstate
#undef _ymmh_state
#undef sigcontext

#include "testing.h"

#include "vmm/signal_frame.h"

#include <ucontext.h>

#define SAME(ours, theirs)                                                                         \
	assert_int_equal(                                                                          \
		offsetof(struct signal_context, ours), offsetof(struct kernel_sigcontext, theirs))

static void registers_lie_where_the_kernel_puts_them(void **state)
{
	(void)state;
	SAME(r8, r8);
	SAME(r15, r15);
	SAME(rdi, rdi);
	SAME(rsi, rsi);
	SAME(rbp, rbp);
	SAME(rbx, rbx);
	SAME(rdx, rdx);
	SAME(rax, rax);
	SAME(rcx, rcx);
	SAME(rsp, rsp);
	SAME(rip, rip);
	SAME(eflags, eflags);
	SAME(cs, cs);
	SAME(gs, gs);
	SAME(fs, fs);
	SAME(ss, ss);
	SAME(error, err);
	SAME(trap, trapno);
	SAME(old_mask, oldmask);
	SAME(cr2, cr2);
	SAME(fpstate, fpstate);
	assert_int_equal(sizeof(struct signal_context), sizeof(struct kernel_sigcontext));
}

static void a_context_is_what_the_c_library_reads(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct user_context, flags), offsetof(ucontext_t, uc_flags));
	assert_int_equal(offsetof(struct user_context, link), offsetof(ucontext_t, uc_link));
	assert_int_equal(
		offsetof(struct user_context, stack_base), offsetof(ucontext_t, uc_stack.ss_sp));
	assert_int_equal(offsetof(struct user_context, stack_flags),
		offsetof(ucontext_t, uc_stack.ss_flags));
	assert_int_equal(
		offsetof(struct user_context, stack_size), offsetof(ucontext_t, uc_stack.ss_size));
	assert_int_equal(
		offsetof(struct user_context, registers), offsetof(ucontext_t, uc_mcontext));
	assert_int_equal(offsetof(struct user_context, mask), offsetof(ucontext_t, uc_sigmask));
	assert_int_equal(offsetof(struct user_context, registers.rip),
		offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]));
	assert_int_equal(offsetof(struct user_context, registers.rsp),
		offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]));
	assert_int_equal(offsetof(struct user_context, registers.cr2),
		offsetof(ucontext_t, uc_mcontext.gregs[REG_CR2]));
	assert_int_equal(offsetof(struct user_context, registers.fpstate),
		offsetof(ucontext_t, uc_mcontext.fpregs));
}

static void a_frame_begins_with_where_to_return(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct signal_frame, restorer), 0);
	assert_int_equal(offsetof(struct signal_frame, context), 8);
	assert_int_equal(offsetof(struct signal_frame, info), 8 + sizeof(struct user_context));
	assert_int_equal(sizeof(siginfo_t), 128);
}

static void floating_point_state_carries_the_kernels_marks(void **state)
{
	(void)state;
	assert_int_equal(XSTATE_MAGIC1, FP_XSTATE_MAGIC1);
	assert_int_equal(XSTATE_MAGIC2, FP_XSTATE_MAGIC2);
	assert_int_equal(XSAVE_SOFTWARE_AT, offsetof(struct kernel_xstate, fpstate.sw_reserved));
	/* 512 bytes of old, a header, and the upper halves of 16 registers. */
	assert_int_equal(XSAVE_SIZE, offsetof(struct kernel_xstate, ymmh) + 256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(registers_lie_where_the_kernel_puts_them),
		TEST(a_context_is_what_the_c_library_reads),
		TEST(a_frame_begins_with_where_to_return),
		TEST(floating_point_state_carries_the_kernels_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
