/* clocked: deadlines. */
#include "http/inner.h"

#include "base/clock.h"

void clocked_add(struct clocked *queue, struct conn *conn)
{
	clocked_remove(conn);
	conn->clock = queue;
	conn->since_us = clock_now_us();
	conn->newer = NULL;
	conn->older = queue->newest;
	*(conn->older ? &conn->older->newer : &queue->oldest) = conn;
	queue->newest = conn;
}

void clocked_remove(struct conn *conn)
{
	struct clocked *queue = conn->clock;

	if (!queue)
		return;
	*(conn->older ? &conn->older->newer : &queue->oldest) = conn->newer;
	*(conn->newer ? &conn->newer->older : &queue->newest) = conn->older;
	conn->clock = NULL;
}

struct conn *clocked_due(const struct clocked *queue, int64_t now_us)
{
	struct conn *conn = queue->oldest;

	return conn && conn->since_us + queue->period_us <= now_us ? conn : NULL;
}

int64_t clocked_until(const struct clocked *queue)
{
	return queue->oldest ? queue->oldest->since_us + queue->period_us : INT64_MAX;
}
