/* follow.h - ranks other than 0: the calls that they are told. */
#ifndef KVC_RANKS_FOLLOW_H
#define KVC_RANKS_FOLLOW_H

struct kvc_ranks;

/* Does what is told until the ranks close (returns 0), or a function that rank 0's program gave has returned: what
 * that returned. */
int kvc_follow(struct kvc_ranks *ranks);
void kvc_follow_free(struct kvc_ranks *ranks);

#endif
