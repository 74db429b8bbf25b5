/* A shared library needs a source of its own; all code is in the engine's archive. */
typedef int hotcell_empty_translation_unit;
