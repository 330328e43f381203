// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory objects: what Buffers are made of, so that peers can map it.
#include <cstddef>
#include <cstdint>
#include <utility>

namespace verbatim::engine {

class Engine;

/// Memory in an object that peers can map. nullptr with errno.
void* allocate_object(Engine& engine, std::size_t bytes, bool huge_pages) noexcept;
int free_object(Engine& engine, void* address, std::size_t bytes) noexcept;

/// The object that holds the whole range: its index + 1 and the offset in it; 0: none does.
[[nodiscard]] std::pair<std::uint32_t, std::uint64_t> object_of(std::uintptr_t address,
                                                                std::uint64_t length);

}  // namespace verbatim::engine
