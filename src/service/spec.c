#include "service/spec.h"

#include "language/language.h"

#include <stdlib.h>

void spec_free(struct spec *spec)
{
	free(spec->language);
	free(spec->code);
	free(spec->entry);
	for (size_t i = 0; i < spec->files_count; i++) {
		free(spec->files[i].path);
		free(spec->files[i].host_path);
		free(spec->files[i].data);
	}
	free(spec->files);
	if (spec->args)
		strings_free(spec->args);
	if (spec->env)
		strings_free(spec->env);
	free(spec->stdin_data);
	free(spec->profile);
	free(spec->user);
	free(spec->session_id);
	free(spec->cache_key);
	*spec = (struct spec){ 0 };
}
