// Blocks that run side by side, whose threads are fibres: who goes on where threads wait, or look
// at memory that blocks share, is drawn by lot. Warps exchange values as on a GPU. The same seed
// gives the same order.
#pragma once
#include "threads.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __shared__ static __attribute__((section("block_shared")))
extern "C" __attribute__((weak, visibility("hidden"))) char __start_block_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_block_shared[];

namespace fibers {

static bool misaligned;

constexpr size_t kStack = 64 << 10;

// Where a number of threads meet, with a value each.
struct Meeting {
  unsigned size = 0, arrived = 0;
  uint64_t round = 0;
  uint64_t values[2][32];
};

struct Block {
  Extents place;
  std::vector<char> shared;
  Meeting all;
  std::vector<Meeting> warps;
  unsigned running;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  Block* block;
  Extents place;
  unsigned number;
  Meeting* at = nullptr;  // where it waits for others, since
  uint64_t since = 0;     // this round
  bool ended = false;

  bool waits() const { return at != nullptr && at->round == since; }
};

static ucontext_t scheduler;
static Fiber* current;
static Block* loaded;
static uint64_t lots;
static void (*body)(void*);
static void* given;

// Draws a number below a limit (xorshift64*).
inline unsigned draw_lot(size_t limit) {
  lots ^= lots >> 12;
  lots ^= lots << 25;
  lots ^= lots >> 27;
  return unsigned(lots * 0x2545f4914f6cdd1dull >> 32) % limit;
}

inline void yield() { swapcontext(&current->context, &scheduler); }

// Comes to a meeting and waits for the others; returns the values that all have brought.
inline const uint64_t* meet(Meeting& meeting, unsigned place, uint64_t value) {
  const uint64_t round = meeting.round;
  uint64_t* values = meeting.values[round % 2];
  values[place] = value;
  if (++meeting.arrived == meeting.size) {
    meeting.arrived = 0;
    ++meeting.round;
  } else {
    current->at = &meeting;
    current->since = round;
    yield();
    current->at = nullptr;
  }
  return values;
}

template <class T>
T exchanged(T mine, int from) {
  static_assert(sizeof(T) <= 8, "a lane brings up to 8 bytes");
  uint64_t word = 0;
  std::memcpy(&word, &mine, sizeof(T));
  const unsigned lane = current->number % 32;
  const uint64_t* words = meet(current->block->warps[current->number / 32], lane, word);
  if (from < 0 || from >= 32) from = lane;
  T theirs;
  std::memcpy(&theirs, &words[from], sizeof(T));
  return theirs;
}

inline void start() {
  body(given);
  current->ended = true;
  --current->block->running;
  yield();
}

inline void swap_shared(Block* block) {
  if (block == loaded) return;
  const size_t size = __stop_block_shared - __start_block_shared;
  if (loaded != nullptr) std::memcpy(loaded->shared.data(), __start_block_shared, size);
  std::memcpy(__start_block_shared, block->shared.data(), size);
  loaded = block;
}

inline void begin(Block* block, std::vector<std::unique_ptr<Fiber>>& all) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  block->shared.assign(__stop_block_shared - __start_block_shared, char(0xA5));
  block->running = block->all.size = count;
  block->warps.resize((count + 31) / 32);
  for (unsigned i = 0; i < count; ++i) {
    ++block->warps[i / 32].size;
    all.emplace_back(new Fiber);
    Fiber& fiber = *all.back();
    fiber.block = block;
    fiber.number = i;
    fiber.place = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    makecontext(&fiber.context, start, 0);
  }
}

constexpr uint64_t kMostTurns = 5000;  // of a thread, on average

// Runs a launch, at most `resident` blocks at a time, which begin in a drawn order. Returns 0; 1
// where all threads wait, 2 where they go on for ever, 3 where an access was not aligned.
inline int run(Extents grid, Extents block, unsigned seed, unsigned resident,
               void (*entry)(void*), void* arguments) {
  gridDim = grid;
  blockDim = block;
  lots = seed + 1;
  body = entry;
  given = arguments;
  loaded = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blocks.emplace_back(new Block);
        blocks.back()->place = {x, y, z};
      }
  for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[draw_lot(i)]);
  const uint64_t most = kMostTurns * blocks.size() * block.x * block.y * block.z;
  misaligned = false;
  std::vector<std::unique_ptr<Fiber>> fibers;
  size_t begun = 0, ended = 0;
  for (uint64_t turn = 0; ended < blocks.size(); ++turn) {
    if (turn == most) return 2;
    while (begun < blocks.size() && begun - ended < resident) begin(blocks[begun++].get(), fibers);
    // Fibres from a drawn one on; the first that does not wait goes on.
    const size_t first = draw_lot(fibers.size());
    size_t at = first;
    while (fibers[at]->waits()) {
      at = at + 1 < fibers.size() ? at + 1 : 0;
      if (at == first) return 1;
    }
    current = fibers[at].get();
    swap_shared(current->block);
    threadIdx = current->place;
    blockIdx = current->block->place;
    swapcontext(&scheduler, &current->context);
    if (current->ended) {
      ended += current->block->running == 0;
      std::swap(fibers[at], fibers.back());
      fibers.pop_back();
    }
  }
  return misaligned ? 3 : 0;
}

}  // namespace fibers

// What -fsanitize=alignment calls.
extern "C" void __ubsan_handle_type_mismatch_v1(void*, void*) { fibers::misaligned = true; }

#define __syncthreads() fibers::meet(fibers::current->block->all, 0, 0)

template <class T>
T __shfl_sync(unsigned, T mine, int from) {
  return fibers::exchanged(mine, from);
}
template <class T>
T __shfl_up_sync(unsigned, T mine, int distance) {
  return fibers::exchanged(mine, int(fibers::current->number % 32) - distance);
}
template <class T>
T __shfl_down_sync(unsigned, T mine, int distance) {
  return fibers::exchanged(mine, int(fibers::current->number % 32) + distance);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const unsigned number = fibers::current->number;
  const uint64_t* votes = fibers::meet(fibers::current->block->warps[number / 32], number % 32, vote);
  unsigned found = 0;
  for (int lane = 0; lane < 32; ++lane) found |= unsigned(votes[lane] != 0) << lane;
  return found;
}
inline void __nanosleep(unsigned) { fibers::yield(); }
inline unsigned atomicAdd(unsigned* place, unsigned value) {
  fibers::yield();
  const unsigned before = *place;
  *place += value;
  return before;
}

// A word of memory that blocks share: others may go on before it is read or written.
struct Watched {
  unsigned long long value_;
  operator unsigned long long() const {
    fibers::yield();
    return value_;
  }
  void operator=(unsigned long long value) {
    fibers::yield();
    value_ = value;
  }
};
