/* proc_cpu: /proc/cpuinfo, from what the processor says of itself: programs can ask it as well. */
#include "vmm/proc_text.h"

#include "base/own.h"

#include <cpuid.h>

enum leaf { LEAF_1_ECX, LEAF_1_EDX, LEAF_7_EBX, LEAF_7_ECX, LEAF_X1_ECX, LEAF_X1_EDX, LEAVES };

/* Names as Linux has them, of what a program can use. */
static const struct {
	uint8_t leaf;
	uint8_t bit;
	const char *name;
} flags[] = {
	{ LEAF_1_EDX, 0, "fpu" },
	{ LEAF_1_EDX, 4, "tsc" },
	{ LEAF_1_EDX, 8, "cx8" },
	{ LEAF_1_EDX, 15, "cmov" },
	{ LEAF_1_EDX, 19, "clflush" },
	{ LEAF_1_EDX, 23, "mmx" },
	{ LEAF_1_EDX, 24, "fxsr" },
	{ LEAF_1_EDX, 25, "sse" },
	{ LEAF_1_EDX, 26, "sse2" },
	{ LEAF_X1_EDX, 11, "syscall" },
	{ LEAF_X1_EDX, 20, "nx" },
	{ LEAF_X1_EDX, 29, "lm" },
	{ LEAF_1_ECX, 0, "pni" },
	{ LEAF_1_ECX, 1, "pclmulqdq" },
	{ LEAF_1_ECX, 9, "ssse3" },
	{ LEAF_1_ECX, 12, "fma" },
	{ LEAF_1_ECX, 13, "cx16" },
	{ LEAF_1_ECX, 19, "sse4_1" },
	{ LEAF_1_ECX, 20, "sse4_2" },
	{ LEAF_1_ECX, 22, "movbe" },
	{ LEAF_1_ECX, 23, "popcnt" },
	{ LEAF_1_ECX, 25, "aes" },
	{ LEAF_1_ECX, 26, "xsave" },
	{ LEAF_1_ECX, 28, "avx" },
	{ LEAF_1_ECX, 29, "f16c" },
	{ LEAF_1_ECX, 30, "rdrand" },
	{ LEAF_X1_ECX, 0, "lahf_lm" },
	{ LEAF_X1_ECX, 5, "abm" },
	{ LEAF_7_EBX, 0, "fsgsbase" },
	{ LEAF_7_EBX, 3, "bmi1" },
	{ LEAF_7_EBX, 5, "avx2" },
	{ LEAF_7_EBX, 8, "bmi2" },
	{ LEAF_7_EBX, 9, "erms" },
	{ LEAF_7_EBX, 18, "rdseed" },
	{ LEAF_7_EBX, 19, "adx" },
	{ LEAF_7_EBX, 29, "sha_ni" },
	{ LEAF_7_ECX, 9, "vaes" },
	{ LEAF_7_ECX, 10, "vpclmulqdq" },
};

static void add_flags(struct buf *ret)
{
	unsigned words[LEAVES] = { 0 };
	unsigned a;
	unsigned b;
	unsigned c;
	unsigned d;

	if (__get_cpuid(1, &a, &b, &c, &d)) {
		words[LEAF_1_ECX] = c;
		words[LEAF_1_EDX] = d;
	}
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		words[LEAF_7_EBX] = b;
		words[LEAF_7_ECX] = c;
	}
	if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
		words[LEAF_X1_ECX] = c;
		words[LEAF_X1_EDX] = d;
	}
	buf_add_str(ret, "flags\t\t:");
	for (size_t i = 0; i < COUNT(flags); i++)
		if (words[flags[i].leaf] >> flags[i].bit & 1)
			buf_addf(ret, " %s", flags[i].name);
	buf_add_str(ret, "\n");
}

static void add_name(struct buf *ret)
{
	unsigned words[13] = { 0 };

	for (unsigned i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002 + i, &words[4UL * i], &words[4UL * i + 1],
			    &words[4UL * i + 2], &words[4UL * i + 3]))
			words[0] = 0;
	buf_addf(ret, "model name\t: %s\n", words[0] ? (const char *)words : "unknown");
}

static void add_model(struct buf *ret)
{
	unsigned vendor[4] = { 0 };
	unsigned a = 0;
	unsigned b;
	unsigned c;
	unsigned d;
	unsigned family;
	unsigned model;

	__get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]);
	buf_addf(ret, "processor\t: 0\nvendor_id\t: %s\n", (const char *)vendor);
	a = 0;
	__get_cpuid(1, &a, &b, &c, &d);
	family = a >> 8 & 15;
	model = a >> 4 & 15;
	if (family == 6 || family == 15)
		model |= a >> 12 & 0xf0;
	if (family == 15)
		family += a >> 20 & 255;
	buf_addf(ret, "cpu family\t: %u\nmodel\t\t: %u\n", family, model);
	add_name(ret);
	buf_addf(ret, "stepping\t: %u\n", a & 15);
}

void text_cpuinfo(struct guest *g, struct buf *ret)
{
	(void)g;
	add_model(ret);
	buf_add_str(ret,
		"cpu MHz\t\t: 2000.000\ncache size\t: 1024 KB\nphysical id\t: 0\n"
		"siblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\nfpu\t\t: yes\nwp\t\t: yes\n");
	add_flags(ret);
	buf_add_str(ret, "bogomips\t: 4000.00\nclflush size\t: 64\ncache_alignment\t: 64\n"
			 "address sizes\t: 46 bits physical, 48 bits virtual\n\n");
}
