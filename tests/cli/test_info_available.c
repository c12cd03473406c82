/* test_info_available.c - available memory under control groups and limits, from directory trees that stand for "/". */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/info/info.h"

enum { MB = 1000000 };

/* Creates a new root in which 500 MB are free. */
static void new_root(char root[64]) {
    char command[128];

    snprintf(command, sizeof command, "rm -rf test_info_available.root");
    assert_int_equal(system(command), 0);
    snprintf(root, 64, "test_info_available.root");
}

static void put(const char *root, const char *path, const char *text) {
    char name[1024];
    FILE *stream;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = strchr(name, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        assert_true(mkdir(name, 0777) == 0 || errno == EEXIST);
        *at = '/';
    }
    stream = fopen(name, "w");
    assert_non_null(stream);
    fputs(text, stream);
    assert_int_equal(fclose(stream), 0);
}

static void machine(char root[64]) {
    new_root(root);
    put(root, "/proc/meminfo", "MemTotal:  2000000 kB\nMemFree:  1 kB\nMemAvailable:   500000 kB\n");
}

static const char v1_mounts[] = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
static const char v2_mounts[] = "30 23 0:27 / /proc rw - proc proc rw\n"
                                "31 23 0:28 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";

static void expect(const char *root, uint64_t bytes, const char *from) {
    struct info_available capacity;

    info_available(root, 0, &capacity);
    assert_string_equal(capacity.from, from);
    assert_int_equal(capacity.bytes, bytes);
}

static void nothing_is_known(void **state) {
    char root[64];

    (void)state;
    new_root(root);
    expect(root, UINT64_MAX, "");
    machine(root);
    expect(root, 500000 * 1024, "the machine");
}

static void version_2(void **state) {
    char root[64];

    (void)state;
    machine(root);
    put(root, "/proc/self/mountinfo", v2_mounts);
    put(root, "/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    expect(root, 500000 * 1024, "the machine"); /* no memory controller */
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.high", "max\n");
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.current", "10000000\n");
    put(root, "/sys/fs/cgroup/slurm/memory.max", "max\n");
    expect(root, 500000 * 1024, "the machine");
    /* A parent group leaves less: its limit minus what all its processes use, not counting file pages. */
    put(root, "/sys/fs/cgroup/slurm/job_7/memory.max", "60000000\n");
    put(root, "/sys/fs/cgroup/slurm/job_7/memory.current", "50000000\n");
    expect(root, 10 * MB, "memory.max of /sys/fs/cgroup/slurm/job_7");
    put(root, "/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 20\ninactive_file 20000000\nactive_file 10000000\n");
    expect(root, 40 * MB, "memory.max of /sys/fs/cgroup/slurm/job_7");
    /* the group's own memory.high, above which its processes are slowed down */
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.high", "30000000\n");
    expect(root, 20 * MB, "memory.high of /sys/fs/cgroup/slurm/job_7/step_0");
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.current", "70000000\n");
    expect(root, 0, "memory.high of /sys/fs/cgroup/slurm/job_7/step_0"); /* more is in use than the limit */
    put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "0\n");
    expect(root, 0, "memory.max of /sys/fs/cgroup/slurm/job_7/step_0");
}

static void a_container_sees_its_own_group(void **state) {
    char root[64];

    (void)state;
    machine(root);
    put(root, "/proc/self/cgroup", "0::/\n");
    put(root, "/proc/self/mountinfo", v2_mounts);
    put(root, "/sys/fs/cgroup/memory.max", "60000000\n");
    expect(root, 60 * MB, "memory.max of /sys/fs/cgroup");
    /* the mount shows the group while the path is the host's */
    put(root, "/proc/self/cgroup", "0::/docker/ab/inner\n");
    put(root, "/proc/self/mountinfo", "31 23 0:28 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put(root, "/sys/fs/cgroup/inner/memory.max", "50000000\n");
    expect(root, 50 * MB, "memory.max of /sys/fs/cgroup/inner");
    /* another group's name begins with the same letters; one is outside the mount */
    put(root, "/proc/self/cgroup", "0::/docker/abc\n");
    expect(root, 60 * MB, "memory.max of /sys/fs/cgroup");
    put(root, "/proc/self/cgroup", "0::/../../inner\n");
    expect(root, 60 * MB, "memory.max of /sys/fs/cgroup");
}

static void version_1_and_both(void **state) {
    char root[64];

    (void)state;
    machine(root);
    put(root, "/proc/self/mountinfo", v1_mounts);
    put(root, "/proc/self/cgroup", "9:name=systemd:/a\n5:cpu,cpuacct:/b\n4:cpuset,memory:/batch/job\n0::/unified\n");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "/sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "/sys/fs/cgroup/memory/batch/job/memory.usage_in_bytes", "30000000\n");
    put(root, "/sys/fs/cgroup/memory/batch/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 4000000\ntotal_active_file 6000000\n"
        "hierarchical_memory_limit 9223372036854771712\n");
    expect(root, 500000 * 1024, "the machine");
    put(root, "/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "90000000\n");
    put(root, "/sys/fs/cgroup/memory/batch/memory.usage_in_bytes", "50000000\n");
    expect(root, 40 * MB, "memory.limit_in_bytes of /sys/fs/cgroup/memory/batch");
    put(root, "/sys/fs/cgroup/memory/batch/memory.use_hierarchy", "0\n"); /* possible with old kernels */
    expect(root, 500000 * 1024, "the machine");
    put(root, "/sys/fs/cgroup/memory/batch/memory.use_hierarchy", "1\n");
    put(root, "/sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes", "50000000\n");
    expect(root, 30 * MB, "memory.limit_in_bytes of /sys/fs/cgroup/memory/batch/job");
    /* a limit above the mounted group is known from the group's own statistics */
    put(root, "/sys/fs/cgroup/memory/batch/job/memory.stat",
        "total_inactive_file 10000000\nhierarchical_memory_limit 25000000\n");
    expect(root, 5 * MB, "hierarchical_memory_limit of /sys/fs/cgroup/memory/batch/job");
    /* the memory controller of version 2 is mounted beside version 1 */
    put(root, "/sys/fs/cgroup/unified/unified/memory.max", "3000000\n");
    expect(root, 3 * MB, "memory.max of /sys/fs/cgroup/unified/unified");
}

static void absurd_contents(void **state) {
    static const char *const nonsense[] = {"",        "\n",       "-5\n", "x\n",
                                           "max 5\n", "\377\377", " ",    "99999999999999999999999999\n"};
    char root[64], long_path[9000];

    (void)state;
    machine(root);
    put(root, "/proc/self/cgroup", "0::/job\n");
    put(root, "/proc/self/mountinfo", v2_mounts);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put(root, "/sys/fs/cgroup/job/memory.max", nonsense[i]);
        expect(root, 500000 * 1024, "the machine");
    }
    put(root, "/sys/fs/cgroup/job/memory.max", "60000000\n");
    put(root, "/sys/fs/cgroup/job/memory.stat", "inactive_file 99999999999999\nactive_file -1\n");
    put(root, "/sys/fs/cgroup/job/memory.current", "50000000\n");
    expect(root, 60 * MB, "memory.max of /sys/fs/cgroup/job"); /* never more than the limit */
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put(root, "/proc/self/cgroup", nonsense[i]);
        expect(root, 500000 * 1024, "the machine");
    }
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    memcpy(long_path, "0::/job/", 8);
    put(root, "/proc/self/cgroup", long_path);
    expect(root, 500000 * 1024, "the machine");
    put(root, "/proc/self/cgroup", "0::/job\n");
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put(root, "/proc/self/mountinfo", nonsense[i]);
        expect(root, 500000 * 1024, "the machine");
    }
}

static void limits_of_the_process(void **state) {
    char root[64];
    struct info_available capacity;

    (void)state;
    machine(root);
    put(root, "/proc/self/status", "Name:\tx\nVmPeak:\t  900000 kB\nVmSize:\t  100000 kB\nVmData:\t   20000 kB\n");
    put(root, "/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
    expect(root, 500000 * 1024, "the machine");
    put(root, "/proc/self/limits",
        "Max data size             40960000             unlimited            bytes     \n"
        "Max address space         204800000            unlimited            bytes     \n");
    expect(root, 20000 * 1024, "the data segment (ulimit -d)");
    put(root, "/proc/self/limits",
        "Max data size             unlimited            unlimited            bytes     \n"
        "Max address space         204800000            unlimited            bytes     \n");
    expect(root, 100000 * 1024, "the address space (ulimit -v)");
    info_available(root, 7, &capacity); /* the weights are already in memory */
    assert_int_equal(capacity.bytes, 100000 * 1024 + 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known),   cmocka_unit_test(version_2),
        cmocka_unit_test(version_1_and_both), cmocka_unit_test(a_container_sees_its_own_group),
        cmocka_unit_test(absurd_contents),    cmocka_unit_test(limits_of_the_process)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return system("rm -rf test_info_available.root") == 0 ? failed : 1;
}
