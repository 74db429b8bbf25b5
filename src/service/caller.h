/* caller: who asks. */
#ifndef HOTCELL_SERVICE_CALLER_H
#define HOTCELL_SERVICE_CALLER_H

#include "service/rights.h"
#include "store/store.h"

/* The owner of what is made without a key. */
#define CALLER_LOCAL "local"

struct caller {
	char owner[STORE_ID_SIZE]; /* the key's id, or CALLER_LOCAL */
	bool has_key;
	bool is_admin;
	struct rights rights;
};

#endif
