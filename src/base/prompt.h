/* prompt: for a thread that others wait for, and that has little to do each time. */
#ifndef HOTCELL_BASE_PROMPT_H
#define HOTCELL_BASE_PROMPT_H

/* The calling thread asks for short turns on the processor, and so gets them sooner: it need not wait until a program that
 * computes has had its own, of some milliseconds. It gets no more of the processor than before, and nothing that it starts
 * inherits it. Without effect before Linux 6.12, and where the user has chosen another way of scheduling. */
void prompt_ask(void);

#endif
