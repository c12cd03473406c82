/* mpi_open.c - opens the module of the MPI whose launcher started this process. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/library.h"
#include "ranks/links.h"
#include "ranks/mpi_module.h"

enum { WHY = 200 };

static const struct mpi_name {
    enum kvc_library_id id;
    const char *value, *name; /* the value of KVCULL_MPI that selects the MPI; its name */
} names[] = {{KVC_LIBRARY_OPENMPI, "openmpi", "Open MPI"}, {KVC_LIBRARY_MPICH, "mpich", "MPICH"}};

enum { NAMES = sizeof names / sizeof *names };

/* Returns the index of the MPI to try first. A program that calls MPI itself decides, then KVCULL_MPI, then the
 * variables of the launcher. Launchers of MPICH, Intel MPI and Slurm's PMI-2 set PMI_RANK. */
static size_t first_choice(void) {
    const char *wanted = getenv("KVCULL_MPI");
    if (dlsym(RTLD_DEFAULT, "MPI_Init"))
        return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") ? 0 : 1;
    for (size_t i = 0; wanted && i < NAMES; i++)
        if (strcmp(wanted, names[i].value) == 0)
            return i;
    return !getenv("OMPI_COMM_WORLD_SIZE") && getenv("PMI_RANK") ? 1 : 0;
}

/* Returns the module, or NULL and the reason. */
static const struct kvc_mpi_module *find_module(enum kvc_library_id id, char why[WHY]) {
    const struct kvc_mpi_module *module;
    void *handle = kvc_library_open(id, why, WHY);
    if (!handle)
        return NULL;
    module = dlsym(handle, "kvc_mpi_module");
    if (module && strcmp(module->version, KVC_VERSION) == 0 && module->link_bytes == sizeof(struct kvc_link))
        return module;
    snprintf(why, WHY, "the module belongs to another version of kvcull");
    return NULL;
}

/* Returns the number of processes that the launcher started, as its variables tell, or 0. */
static int launched(void) {
    const char *open_mpi = getenv("OMPI_COMM_WORLD_SIZE"), *pmi = getenv("PMI_SIZE");
    return open_mpi ? atoi(open_mpi) : pmi ? atoi(pmi) : 0;
}

enum kvc_status kvc_link_open_mpi(struct kvc_link **link, struct kvc_error *error) {
    char why[NAMES][WHY] = {"", ""};
    const size_t first = first_choice();
    *link = NULL;
    for (size_t i = 0; i < NAMES; i++) {
        const struct mpi_name *name = &names[(first + i) % NAMES];
        const struct kvc_mpi_module *module = find_module(name->id, why[name - names]);
        if (!module)
            continue;
        const enum kvc_status status = module->open(link, error);
        if (status != KVC_OK || (*link)->count > 1 || launched() <= 1)
            return status;
        (*link)->class->close(*link);
        *link = NULL;
        return kvc_fail(error, KVC_RESOURCE,
                        "ranks: the launcher started %d processes, but %s sees one; use the mpirun of %s, or choose "
                        "another MPI by KVCULL_MPI",
                        launched(), name->name, name->name);
    }
    return kvc_fail(error, KVC_RESOURCE, "ranks: no MPI can be opened: %s: %s; %s: %s", names[0].name, why[0],
                    names[1].name, why[1]);
}
