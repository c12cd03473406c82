/* look.h - asks the program during a prompt whether to go on (kvc_engine_on_interrupt), often enough that a prompt ends
 * within a second on usual machines.
 *
 * Between kvc_look_begin and kvc_look_end, long operations ask before they start: linear layers, and attention block by
 * block. After the answer "stop" they are skipped. Their outputs are then undefined. The caller may compute floats
 * from them, but must check kvc_look_status before any other use, for example as indices. The other ranks get rank 0's
 * answer at the same operation, because they ask after the same amount of work. */
#ifndef KVC_CORE_ENGINE_LOOK_H
#define KVC_CORE_ENGINE_LOOK_H

#include "core/engine/session.h"

/* Called when a prompt begins: forgets an earlier answer. */
void kvc_look_open(struct kvc_engine *engine);
/* Begins a computation and asks. Returns KVC_USAGE if the program stops the prompt, or has stopped it before. */
enum kvc_status kvc_look_begin(struct kvc_runner *runner, struct kvc_error *error);
/* Called before an operation of `work` multiply-adds. Returns false if the operation must be skipped. */
bool kvc_look(struct kvc_runner *runner, uint64_t work);
/* Returns KVC_USAGE if operations have been skipped. */
enum kvc_status kvc_look_status(const struct kvc_runner *runner, struct kvc_error *error);
/* Ends the computation: the following operations do not ask. Returns kvc_look_status. */
enum kvc_status kvc_look_end(struct kvc_runner *runner, struct kvc_error *error);
/* Returns how many of the rows attention should take at once, so that the program is asked often enough. */
uint32_t kvc_look_rows(const struct kvc_session *session, uint32_t layer, uint32_t rows);

#endif
