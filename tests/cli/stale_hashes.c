/* stale_hashes.c - stale_hashes FOLDER WHAT: makes the folder's hashes.txt outdated but valid. WHAT is "arithmetic", or
 * the name of an operation or method whose hash changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verify/verify.h"

int main(int argc, char **argv) {
    const struct cli_command command = {.name = "stale_hashes"};
    struct verify_hashes hashes = {.count = 0};
    int status = argc == 3 && setenv("KVCULL_DATA", argv[1], 1) == 0 ? verify_hashes_read(&command, &hashes) : 2;

    if (status == 0) {
        if (strcmp(argv[2], "arithmetic") == 0)
            hashes.arithmetic--;
        for (size_t i = 0; i < hashes.count; i++)
            if (strcmp(hashes.items[i].name, argv[2]) == 0)
                hashes.items[i].hash[0]++;
        status = verify_hashes_write(&command, &hashes, hashes.path);
    }
    verify_hashes_free(&hashes);
    return status;
}
