/* follow.h - the loop of the ranks other than 0, which repeats rank 0's calls. */
#ifndef KVC_RANKS_FOLLOW_H
#define KVC_RANKS_FOLLOW_H

struct kvc_ranks;

/* Runs calls until rank 0 closes the ranks or returns from a callback of its program. Returns the callback's value, or
 * 0 if the ranks closed. */
int kvc_follow(struct kvc_ranks *ranks);
void kvc_follow_free(struct kvc_ranks *ranks);

#endif
