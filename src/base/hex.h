/* hex: digits of base 16. */
#ifndef HOTCELL_BASE_HEX_H
#define HOTCELL_BASE_HEX_H

/* Its value, or -1. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
