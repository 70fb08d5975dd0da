/* Counts the calls MPI really receives, below Python and without touching the library under test: preloaded, it stands
   between mpi4py and MPI (the profiling interface of the MPI standard). MPI_Pcontrol(1) begins to count, from zero;
   MPI_Pcontrol(0) stops. At MPI_Finalize each rank appends lines "rank call times bytes" to the file $PMPI_COUNT.
   A call and its non-blocking form have one name. Bytes are what this rank gives, where one number of the call says it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *name; long long times, bytes; } Counter;
static Counter counters[64];
static int used, counting = 1;

static void count(const char *name, long long items, MPI_Datatype type) {
    int i = 0, size = 0;
    if (!counting) return;
    while (i < used && strcmp(counters[i].name, name)) i++;
    if (i == used) counters[used++].name = name;
    if (items > 0) PMPI_Type_size(type, &size);
    counters[i].times++;
    counters[i].bytes += items * size;
}

int MPI_Pcontrol(const int level, ...) {
    counting = level > 0;
    if (counting) { memset(counters, 0, sizeof counters); used = 0; }
    return MPI_SUCCESS;
}

int MPI_Finalize(void) {
    const char *path = getenv("PMPI_COUNT");
    FILE *file = path ? fopen(path, "a") : NULL;
    char lines[4096] = "", *end = lines;  /* written at once, so that those of two ranks do not mix */
    int rank, i;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 0; i < used; i++)
        end += sprintf(end, "%d %s %lld %lld\n", rank, counters[i].name, counters[i].times, counters[i].bytes);
    if (file) { fputs(lines, file); fclose(file); }
    return PMPI_Finalize();
}

/* A call, its non-blocking form, and both with large counts (mpi4py uses these, where MPI has them). PARAMS takes the
   types of counts and displacements; the rest are the parameters' names. */
#define CALL(name, function, items, type, PARAMS, ...) \
    int MPI_##function(PARAMS) { count(name, items, type); return PMPI_##function(__VA_ARGS__); }
#if MPI_VERSION >= 4
#define LARGE CALL
#else
#define LARGE(...)
#endif
#define _(...) __VA_ARGS__
#define FORMS(call, icall, items, type, PARAMS, ...) \
    CALL(#call, call, items, type, PARAMS(int, int), __VA_ARGS__) \
    LARGE(#call, call##_c, items, type, PARAMS(MPI_Count, MPI_Aint), __VA_ARGS__) \
    CALL(#call, icall, items, type, _(PARAMS(int, int), MPI_Request *q), __VA_ARGS__, q) \
    LARGE(#call, icall##_c, items, type, _(PARAMS(MPI_Count, MPI_Aint), MPI_Request *q), __VA_ARGS__, q)

#define REDUCTION(C, D) const void *s, void *r, C n, MPI_Datatype t, MPI_Op o, MPI_Comm c
FORMS(Allreduce, Iallreduce, n, t, REDUCTION, s, r, n, t, o, c)
FORMS(Reduce_scatter_block, Ireduce_scatter_block, n, t, REDUCTION, s, r, n, t, o, c)
FORMS(Scan, Iscan, n, t, REDUCTION, s, r, n, t, o, c)
FORMS(Exscan, Iexscan, n, t, REDUCTION, s, r, n, t, o, c)

/* What is prepared counts when it is started. */
#if MPI_VERSION >= 4
static struct { MPI_Request request; long long items; MPI_Datatype type; } prepared[4096];
static int preparations;

static int prepare(int error, long long items, MPI_Datatype type, MPI_Request request) {
    if (preparations == 4096) abort();
    prepared[preparations].request = request;
    prepared[preparations].items = items;
    prepared[preparations++].type = type;
    return error;
}

#define PREPARED(C, form) \
    int MPI_Allreduce_##form(const void *s, void *r, C n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Info i, MPI_Request *q) { \
        int error = PMPI_Allreduce_##form(s, r, n, t, o, c, i, q); \
        return prepare(error, n, t, *q); \
    }
PREPARED(int, init)
PREPARED(MPI_Count, init_c)

int MPI_Start(MPI_Request *request) {
    for (int i = 0; i < preparations; i++)
        if (prepared[i].request == *request) { count("Allreduce", prepared[i].items, prepared[i].type); break; }
    return PMPI_Start(request);
}
#endif

#define REDUCTIONS(C, D) const void *s, void *r, const C n[], MPI_Datatype t, MPI_Op o, MPI_Comm c
FORMS(Reduce_scatter, Ireduce_scatter, 0, t, REDUCTIONS, s, r, n, t, o, c)

#define TO_ROOT(C, D) const void *s, void *r, C n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c
FORMS(Reduce, Ireduce, n, t, TO_ROOT, s, r, n, t, o, root, c)

#define BCAST(C, D) void *b, C n, MPI_Datatype t, int root, MPI_Comm c
FORMS(Bcast, Ibcast, n, t, BCAST, b, n, t, root, c)

#define MOVE(C, D) const void *s, C n, MPI_Datatype t, void *r, C m, MPI_Datatype u, MPI_Comm c
FORMS(Allgather, Iallgather, n, t, MOVE, s, n, t, r, m, u, c)
FORMS(Alltoall, Ialltoall, n, t, MOVE, s, n, t, r, m, u, c)

#define ROOTED(C, D) const void *s, C n, MPI_Datatype t, void *r, C m, MPI_Datatype u, int root, MPI_Comm c
FORMS(Gather, Igather, n, t, ROOTED, s, n, t, r, m, u, root, c)
FORMS(Scatter, Iscatter, n, t, ROOTED, s, n, t, r, m, u, root, c)

#define GATHERV(C, D) const void *s, C n, MPI_Datatype t, void *r, const C m[], const D d[], MPI_Datatype u, MPI_Comm c
FORMS(Allgatherv, Iallgatherv, n, t, GATHERV, s, n, t, r, m, d, u, c)

#define ALLTOALLV(C, D) const void *s, const C n[], const D e[], MPI_Datatype t, \
    void *r, const C m[], const D d[], MPI_Datatype u, MPI_Comm c
FORMS(Alltoallv, Ialltoallv, 0, t, ALLTOALLV, s, n, e, t, r, m, d, u, c)

#define SEND(C, D) const void *s, C n, MPI_Datatype t, int to, int tag, MPI_Comm c
FORMS(Send, Isend, n, t, SEND, s, n, t, to, tag, c)

#define RECV(C, D) void *r, C n, MPI_Datatype t, int from, int tag, MPI_Comm c
CALL("Recv", Recv, n, t, _(RECV(int, int), MPI_Status *q), r, n, t, from, tag, c, q)
LARGE("Recv", Recv_c, n, t, _(RECV(MPI_Count, int), MPI_Status *q), r, n, t, from, tag, c, q)
CALL("Recv", Irecv, n, t, _(RECV(int, int), MPI_Request *q), r, n, t, from, tag, c, q)
LARGE("Recv", Irecv_c, n, t, _(RECV(MPI_Count, int), MPI_Request *q), r, n, t, from, tag, c, q)

CALL("Barrier", Barrier, 0, MPI_BYTE, MPI_Comm c, c)
CALL("Barrier", Ibarrier, 0, MPI_BYTE, _(MPI_Comm c, MPI_Request *q), c, q)
