/* mapped_pages.c - an LD_PRELOAD library: before the program unmaps the file $MAPPED_FILE, writes to $MAPPED_FILE.PID
 * how much of the file is in memory and how much is mapped, in kB. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void report(const char *file) {
    FILE *maps = fopen("/proc/self/smaps", "r"), *to;
    char line[4096], name[4096];
    unsigned long rss = 0, size = 0, number;
    int ours = 0;
    snprintf(name, sizeof name, "%s.%ld", file, (long)getpid());
    while (maps && fgets(line, sizeof line, maps)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            ours = strstr(line, file) != NULL;
        else if (ours && sscanf(line, "Rss: %lu", &number) == 1)
            rss += number;
        else if (ours && sscanf(line, "Size: %lu", &number) == 1)
            size += number;
    }
    if (maps)
        fclose(maps);
    if (size && (to = fopen(name, "w")) != NULL) {
        fprintf(to, "%lu %lu\n", rss, size);
        fclose(to);
    }
}

int munmap(void *address, size_t bytes) {
    int (*real)(void *, size_t);
    const char *file = getenv("MAPPED_FILE");
    void *symbol = dlsym(RTLD_NEXT, "munmap");
    memcpy(&real, &symbol, sizeof real);
    if (file && bytes > 1 << 20)
        report(file);
    return real(address, bytes);
}
