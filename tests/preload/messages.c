// SPDX-License-Identifier: MIT OR Apache-2.0
// An MPI program, started with several ranks. Every byte that arrives encodes its sender, receiver,
// message and position, and is compared. Rank 0 prints the result.
#include <mpi.h>
#include <stdint.h>

#include "checks.h"

enum { MOST = 1 << 20 };
static const int sizes[] = {0, 1, 7, 8, 64, 500, 1024, 2048, 4096, 8192, 65536, 262144, MOST};
enum { SIZES = sizeof sizes / sizeof sizes[0], ROUNDS = 3 };
static int rank, ranks;

static uint8_t byte_of(int from, int to, int message, int at) {
  return (uint8_t)(from * 31 + to * 7 + message * 13 + at + (at >> 8) * 5);
}

static void fill(uint8_t* bytes, int size, int from, int to, int message) {
  for (int i = 0; i < size; ++i) bytes[i] = byte_of(from, to, message, i);
}

static bool holds(const uint8_t* bytes, int size, int from, int to, int message) {
  for (int i = 0; i < size; ++i)
    if (bytes[i] != byte_of(from, to, message, i)) return false;
  return true;
}

// Combines what all ranks found.
static void conclude(const char* name, bool fine) {
  int mine = fine, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) CHECK(name, all == 1);
}

static uint8_t* allocate(size_t size) {
  uint8_t* const memory = calloc(1, size + 1);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

// All ranks to all ranks, at the same time.
static bool exchange(int size, int message) {
  uint8_t* const out = allocate((size_t)size * (size_t)ranks);
  uint8_t* const in = allocate((size_t)size * (size_t)ranks);
  MPI_Request requests[2 * 64];
  int count = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    fill(out + size * peer, size, rank, peer, message);
    MPI_Irecv(in + size * peer, size, MPI_BYTE, peer, message, MPI_COMM_WORLD, &requests[count++]);
    MPI_Isend(out + size * peer, size, MPI_BYTE, peer, message, MPI_COMM_WORLD, &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  bool fine = true;
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank && !holds(in + size * peer, size, peer, rank, message)) fine = false;
  free(in);
  free(out);
  return fine;
}

static void check_messages(void) {
  char name[64];
  for (int i = 0; i < SIZES; ++i) {
    bool fine = true;
    for (int round = 0; round < ROUNDS; ++round) fine &= exchange(sizes[i], i * ROUNDS + round);
    snprintf(name, sizeof name, "messages of %d bytes", sizes[i]);
    conclude(name, fine);
  }
  // Many small messages, of which the receiver asks for the last one first.
  enum { MANY = 200 };
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  uint8_t out[MANY][32], in[MANY][32];
  MPI_Request requests[MANY];
  for (int i = 0; i < MANY; ++i) {
    fill(out[i], 32, rank, to, i);
    MPI_Isend(out[i], 32, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
  }
  bool fine = true;
  for (int i = MANY; i-- > 0;) {
    MPI_Recv(in[i], 32, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fine &= holds(in[i], 32, from, rank, i);
  }
  MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
  conclude("many messages, in another order", fine);
}

static void check_collectives(void) {
  enum { COUNT = 50000 };
  static int64_t values[COUNT], sums[COUNT];
  bool fine = true;
  for (int count = 1; count <= COUNT; count *= 10) {
    for (int i = 0; i < count; ++i) values[i] = (int64_t)i * (rank + 1);
    MPI_Allreduce(values, sums, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) fine &= sums[i] == (int64_t)i * ranks * (ranks + 1) / 2;
  }
  conclude("allreduce", fine);
  uint8_t* const bytes = allocate(MOST);
  fine = true;
  for (int root = 0; root < ranks; ++root) {
    if (rank == root) fill(bytes, MOST, root, 0, root);
    MPI_Bcast(bytes, MOST, MPI_BYTE, root, MPI_COMM_WORLD);
    fine &= holds(bytes, MOST, root, 0, root);
  }
  conclude("broadcast", fine);
  free(bytes);
}

static void check_one_sided(void) {
  enum { PART = 20000 };
  uint8_t* memory = NULL;
  MPI_Win window;
  MPI_Win_allocate((MPI_Aint)(PART * ranks), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  uint8_t* const bytes = allocate((size_t)PART * (size_t)ranks);
  MPI_Win_fence(0, window);
  for (int peer = 0; peer < ranks; ++peer) {
    fill(bytes + PART * peer, PART, rank, peer, 1);
    MPI_Put(bytes + PART * peer, PART, MPI_BYTE, peer, PART * rank, PART, MPI_BYTE, window);
  }
  MPI_Win_fence(0, window);
  bool fine = true;
  for (int peer = 0; peer < ranks; ++peer) fine &= holds(memory + PART * peer, PART, peer, rank, 1);
  conclude("put", fine);
  memset(bytes, 0, (size_t)PART * (size_t)ranks);
  MPI_Win_fence(0, window);
  for (int peer = 0; peer < ranks; ++peer)
    MPI_Get(bytes + PART * peer, PART, MPI_BYTE, peer, PART * rank, PART, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  for (int peer = 0; peer < ranks; ++peer) fine &= holds(bytes + PART * peer, PART, rank, peer, 1);
  conclude("get", fine);
  MPI_Win_free(&window);
  free(bytes);

  int64_t* counter = NULL;
  enum { ADDS = 100 };
  MPI_Win_allocate(sizeof *counter, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter,
                   &window);
  *counter = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  const int64_t one = 1;
  int64_t before = -1, last = -1;
  fine = true;
  for (int i = 0; i < ADDS; ++i) {
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    fine &= before > last;
    last = before;
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(&before, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window);
  MPI_Win_unlock(0, window);
  conclude("fetch and add", fine && before == (int64_t)ADDS * ranks);
  MPI_Win_free(&window);
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) CHECK("several ranks", ranks > 1 && ranks <= 64);
  check_messages();
  check_collectives();
  check_one_sided();
  MPI_Finalize();
  return failures != 0;
}
