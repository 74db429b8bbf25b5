#include "vmm/try.h"

#include <errno.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

/* One instruction each, so that the handler knows by its address what failed. They return what is
 * left to do. */
size_t try_copy_bytes(void *to, const void *from, size_t size);
size_t try_zero_bytes(void *to, size_t size);
extern const char try_copy_at[];
extern const char try_copy_end[];
extern const char try_zero_at[];
extern const char try_zero_end[];

/* clang-format off */
__asm__(
	".text\n"
	".globl try_copy_bytes, try_copy_at, try_copy_end\n"
	".globl try_zero_bytes, try_zero_at, try_zero_end\n"
	".type try_copy_bytes, @function\n"
	"try_copy_bytes:\n"
	"	mov	%rdx, %rcx\n"
	"try_copy_at:\n"
	"	rep movsb\n"
	"try_copy_end:\n"
	"	mov	%rcx, %rax\n"
	"	ret\n"
	".size try_copy_bytes, . - try_copy_bytes\n"
	".type try_zero_bytes, @function\n"
	"try_zero_bytes:\n"
	"	mov	%rsi, %rcx\n"
	"	xor	%eax, %eax\n"
	"try_zero_at:\n"
	"	rep stosb\n"
	"try_zero_end:\n"
	"	mov	%rcx, %rax\n"
	"	ret\n"
	".size try_zero_bytes, . - try_zero_bytes\n");
/* clang-format on */

#ifdef IS_SANITIZED
void *__asan_region_is_poisoned(void *start, size_t size);

/* The sanitizer does not see into the instructions above. */
static void look(const void *start, size_t size)
{
	if (size && __asan_region_is_poisoned((void *)(uintptr_t)start, size))
		__builtin_trap();
}
#else
static void look(const void *start, size_t size)
{
	(void)start;
	(void)size;
}
#endif

int try_copy(void *to, const void *from, size_t size)
{
	look(to, size);
	look(from, size);
	return try_copy_bytes(to, from, size) ? -EFAULT : 0;
}

int try_zero(void *to, size_t size)
{
	look(to, size);
	return try_zero_bytes(to, size) ? -EFAULT : 0;
}

bool try_failed(void *signal_context)
{
	ucontext_t *context = signal_context;
	greg_t *rip = &context->uc_mcontext.gregs[REG_RIP];

	if (*rip == (greg_t)(uintptr_t)try_copy_at)
		*rip = (greg_t)(uintptr_t)try_copy_end;
	else if (*rip == (greg_t)(uintptr_t)try_zero_at)
		*rip = (greg_t)(uintptr_t)try_zero_end;
	else
		return false;
	return true;
}
