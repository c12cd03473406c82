/* mpi_open.c - opens the plug-in of the MPI whose launcher started this process, or of the other MPI if that one cannot
 * be opened. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/library.h"
#include "ranks/links.h"
#include "ranks/mpi_plugin.h"

enum { WHY = 200 };

static const struct mpi_name {
    enum kvc_library_id id;
    const char *value, *name; /* the value of KVCULL_MPI that selects the MPI; the MPI's name */
} names[] = {{KVC_LIBRARY_OPENMPI, "openmpi", "Open MPI"}, {KVC_LIBRARY_MPICH, "mpich", "MPICH"}};

enum { NAMES = sizeof names / sizeof *names };

/* Returns the index of the MPI to try first. If the process already contains an MPI, that MPI is first. Otherwise
 * KVCULL_MPI decides, then the launcher's variables, then Open MPI. Launchers of MPICH, Intel MPI and Slurm's PMI-2 set
 * PMI_RANK. Returns NAMES if KVCULL_MPI names no MPI. */
static size_t first_choice(void) {
    const char *wanted = getenv("KVCULL_MPI");
    if (dlsym(RTLD_DEFAULT, "MPI_Init"))
        return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") ? 0 : 1;
    for (size_t i = 0; wanted && i < NAMES; i++)
        if (strcmp(wanted, names[i].value) == 0)
            return i;
    return wanted ? NAMES : !getenv("OMPI_COMM_WORLD_SIZE") && getenv("PMI_RANK") ? 1 : 0;
}

/* Returns the plug-in, or NULL and the reason. */
static const struct kvc_mpi_plugin *find_plugin(enum kvc_library_id id, char why[WHY]) {
    const struct kvc_mpi_plugin *plugin;
    void *handle = kvc_library_open(id, why, WHY);
    if (!handle)
        return NULL;
    plugin = dlsym(handle, "kvc_mpi_plugin");
    if (plugin && strcmp(plugin->version, KVC_VERSION) == 0 && plugin->link_bytes == sizeof(struct kvc_link))
        return plugin;
    snprintf(why, WHY, "the plug-in belongs to another version of kvcull");
    return NULL;
}

/* Returns the number of processes that the launcher started, according to its environment variables, or 0 if they are
 * not set (srun --mpi=pmix). */
static int launched(void) {
    const char *open_mpi = getenv("OMPI_COMM_WORLD_SIZE"), *pmi = getenv("PMI_SIZE");
    return open_mpi ? atoi(open_mpi) : pmi ? atoi(pmi) : 0;
}

enum kvc_status kvc_link_open_mpi(struct kvc_link **link, struct kvc_error *error) {
    char why[NAMES][WHY] = {"", ""};
    const size_t first = first_choice();
    *link = NULL;
    if (first == NAMES)
        return kvc_fail(error, KVC_USAGE, "KVCULL_MPI=%s: must be openmpi or mpich", getenv("KVCULL_MPI"));
    for (size_t i = 0; i < NAMES; i++) {
        const struct mpi_name *name = &names[(first + i) % NAMES];
        const struct kvc_mpi_plugin *plugin = find_plugin(name->id, why[name - names]);
        if (!plugin)
            continue;
        const enum kvc_status status = plugin->open(link, error);
        if (status != KVC_OK || (*link)->count > 1 || launched() <= 1)
            return status;
        (*link)->class->close(*link);
        *link = NULL;
        return kvc_fail(
            error, KVC_RESOURCE,
            "ranks: the launcher started %d processes, but %s reports only one; start kvcull with %s's mpirun, "
            "or set KVCULL_MPI to the launcher's MPI (openmpi or mpich)",
            launched(), name->name, name->name);
    }
    return kvc_fail(error, KVC_RESOURCE, "ranks: cannot open any MPI: %s: %s; %s: %s", names[0].name, why[0],
                    names[1].name, why[1]);
}
