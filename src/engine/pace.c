#include "engine/pace.h"

bool pace_count(struct pace *p, int64_t now_us, unsigned processors)
{
	int64_t passed_us = now_us - p->since_us;
	unsigned many = PACE_MANY * processors;

	if (passed_us >= PACE_STRETCH_US) {
		p->were_many = p->count >= many && passed_us < 2L * PACE_STRETCH_US;
		p->since_us = now_us;
		p->count = 0;
	}
	p->count++;
	return p->were_many || p->count >= many;
}
