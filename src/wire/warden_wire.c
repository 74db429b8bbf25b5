#include "wire/warden_wire.h"

static void put_limits(struct frame_out *f, const struct limits *l)
{
	for (int i = 0; i < LIMIT_COUNT; i++)
		frame_put_u64(f, l->at[i]);
}

static void get_limits(struct frame_in *f, struct limits *l)
{
	for (int i = 0; i < LIMIT_COUNT; i++) {
		l->at[i] = frame_get_u64(f);
		/* 0 = not limited; anything else must be within the table's bounds. */
		if (l->at[i] && (l->at[i] < limit_table[i].least || l->at[i] > limit_table[i].most))
			f->bad = true;
	}
}

void put_path(struct frame_out *f, enum warden_frame type, const struct msg_path *m)
{
	frame_begin(f, (uint8_t)type);
	frame_put_string(f, m->path);
}

bool get_path(struct frame_in *f, struct msg_path *m)
{
	m->path = frame_get_string(f);
	return frame_in_done(f);
}

void put_make(struct frame_out *f, const struct msg_make *m)
{
	frame_begin(f, WARDEN_MAKE);
	frame_put_u32(f, m->cell);
	frame_put_u8(f, m->network);
	frame_put_u32(f, m->explicit_limits);
	frame_put_u8(f, m->explicit_network);
	put_limits(f, &m->limits);
	frame_put_u32(f, m->binds_count);
	for (uint32_t i = 0; i < m->binds_count; i++)
		frame_put_string(f, m->binds[i]);
	frame_put_u32(f, m->mounts_count);
	for (uint32_t i = 0; i < m->mounts_count; i++) {
		frame_put_string(f, m->mounts[i].source);
		frame_put_string(f, m->mounts[i].name);
	}
}

static bool get_mounts(struct frame_in *f, struct msg_make *m)
{
	struct err ignored;

	m->mounts_count = frame_get_u32(f);
	if (m->mounts_count > MOUNTS_MAX)
		return false;
	for (uint32_t i = 0; i < m->mounts_count; i++) {
		m->mounts[i].source = frame_get_string(f);
		m->mounts[i].name = frame_get_string(f);
	}
	return mounts_check(m->mounts, m->mounts_count, &ignored) == 0;
}

bool get_make(struct frame_in *f, struct msg_make *m)
{
	m->cell = frame_get_u32(f);
	m->network = frame_get_u8(f);
	m->explicit_limits = frame_get_u32(f);
	m->explicit_network = frame_get_u8(f);
	get_limits(f, &m->limits);
	m->binds_count = frame_get_u32(f);
	if (m->binds_count > MAKE_BINDS_MAX)
		return false;
	for (uint32_t i = 0; i < m->binds_count; i++)
		m->binds[i] = frame_get_string(f);
	return get_mounts(f, m) && frame_in_done(f) &&
	       (m->network == NETWORK_NONE || m->network == NETWORK_HOST);
}

void put_limit(struct frame_out *f, const struct msg_limit *m)
{
	frame_begin(f, WARDEN_LIMIT);
	frame_put_u32(f, m->cell);
	put_limits(f, &m->limits);
}

bool get_limit(struct frame_in *f, struct msg_limit *m)
{
	m->cell = frame_get_u32(f);
	get_limits(f, &m->limits);
	return frame_in_done(f);
}

void put_order(struct frame_out *f, const struct msg_order *m)
{
	frame_begin(f, WARDEN_ORDER);
	frame_put_u32(f, m->cell);
	frame_put_u8(f, m->order);
}

bool get_order(struct frame_in *f, struct msg_order *m)
{
	m->cell = frame_get_u32(f);
	m->order = frame_get_u8(f);
	return frame_in_done(f) && (m->order == ORDER_CANCEL || m->order == ORDER_INTERRUPT);
}

void put_cell(struct frame_out *f, enum warden_frame type, const struct msg_cell *m)
{
	frame_begin(f, (uint8_t)type);
	frame_put_u32(f, m->cell);
}

bool get_cell(struct frame_in *f, struct msg_cell *m)
{
	m->cell = frame_get_u32(f);
	return frame_in_done(f);
}

void put_nothing(struct frame_out *f, enum warden_frame type)
{
	frame_begin(f, (uint8_t)type);
}

bool get_nothing(struct frame_in *f)
{
	return frame_in_done(f);
}

void put_made(struct frame_out *f, const struct msg_made *m)
{
	frame_begin(f, WARDEN_MADE);
	frame_put_u32(f, m->cell);
	frame_put_u32(f, m->not_enforced);
	frame_put_u32(f, m->soft);
	frame_put_u8(f, m->network_not_enforced);
	frame_put_string(f, m->workspace);
}

bool get_made(struct frame_in *f, struct msg_made *m)
{
	m->cell = frame_get_u32(f);
	m->not_enforced = frame_get_u32(f);
	m->soft = frame_get_u32(f);
	m->network_not_enforced = frame_get_u8(f);
	m->workspace = frame_get_string(f);
	return frame_in_done(f);
}

static void put_usage_fields(struct frame_out *f, const struct usage *u)
{
	frame_put_u64(f, u->cpu_us);
	frame_put_u64(f, u->peak_memory_bytes);
	frame_put_u64(f, u->peak_processes);
	frame_put_u64(f, u->oom_kills);
}

static void get_usage_fields(struct frame_in *f, struct usage *u)
{
	u->cpu_us = frame_get_u64(f);
	u->peak_memory_bytes = frame_get_u64(f);
	u->peak_processes = frame_get_u64(f);
	u->oom_kills = frame_get_u64(f);
}

void put_usage(struct frame_out *f, const struct msg_usage *m)
{
	frame_begin(f, WARDEN_USAGE);
	frame_put_u32(f, m->cell);
	put_usage_fields(f, &m->usage);
}

bool get_usage(struct frame_in *f, struct msg_usage *m)
{
	m->cell = frame_get_u32(f);
	get_usage_fields(f, &m->usage);
	return frame_in_done(f);
}

void put_gone(struct frame_out *f, const struct msg_gone *m)
{
	frame_begin(f, WARDEN_GONE);
	frame_put_u32(f, m->cell);
	frame_put_u8(f, m->failed);
	frame_put_u8(f, m->err_kind);
	frame_put_string(f, m->text);
	put_usage_fields(f, &m->usage);
}

bool get_gone(struct frame_in *f, struct msg_gone *m)
{
	m->cell = frame_get_u32(f);
	m->failed = frame_get_u8(f);
	m->err_kind = frame_get_u8(f);
	m->text = frame_get_string(f);
	get_usage_fields(f, &m->usage);
	return frame_in_done(f);
}

void put_checked(struct frame_out *f, const struct msg_checked *m)
{
	frame_begin(f, WARDEN_CHECKED);
	frame_put_string(f, m->name);
	frame_put_u8(f, m->state);
	frame_put_u8(f, m->needed);
	frame_put_string(f, m->detail);
	frame_put_string(f, m->fix);
}

bool get_checked(struct frame_in *f, struct msg_checked *m)
{
	m->name = frame_get_string(f);
	m->state = frame_get_u8(f);
	m->needed = frame_get_u8(f);
	m->detail = frame_get_string(f);
	m->fix = frame_get_string(f);
	return frame_in_done(f);
}
