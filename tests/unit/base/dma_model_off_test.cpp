// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in a release build the model does not exist: no bytes, no calls, no symbols.
// Method: compiled without checks and sanitizers, and linked without the library.
#include <gtest/gtest.h>

#include <array>
#include <source_location>
#include <type_traits>
#include <utility>

#include "verbatim/base/dma_model.hpp"

namespace verbatim::dma {
namespace {

static_assert(!kModelled && !VERBATIM_DMA_MODELLED);
static_assert(std::is_empty_v<Queue> && std::is_trivially_destructible_v<Queue>);
static_assert(std::is_empty_v<Flight> && std::is_trivially_destructible_v<Flight>);
// Both builds have the same interface.
static_assert(!std::is_copy_constructible_v<Queue> && !std::is_move_constructible_v<Queue>);
static_assert(!std::is_copy_constructible_v<Flight> && !std::is_copy_assignable_v<Flight>);
static_assert(std::is_nothrow_move_constructible_v<Flight>);
static_assert(std::is_nothrow_default_constructible_v<Flight>);
static_assert(noexcept(completed(std::declval<Flight&>(), 0)));

struct Slot {
  int work;
  [[no_unique_address]] Flight flight;
};
static_assert(sizeof(Slot) == sizeof(int));

TEST(DmaModelOff, LooksAtNothing) {
  Queue queue{"queue"};
  Flight flight;
  const std::array nowhere{Range{nullptr, 64}, Range{nullptr, 64}};
  for (const auto direction : {Direction::device_writes, Direction::device_writes})
    posted(queue, flight, direction, nowhere, std::source_location::current());
  withdrawn(flight);
  for (int i = 0; i < 2; ++i) completed(flight, 1000);
  SUCCEED() << "twice in flight, twice completed, at no address: nobody looked";
}

}  // namespace
}  // namespace verbatim::dma
