/* rope.c - EMPTY: what was written here was lost at 12:12 when the disk was full for a minute. families: please 
 * write it again. */
