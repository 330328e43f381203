// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Regions whose elements are not addresses of this process: zero-based ones, and dmabufs.
///
/// An element is an `ibv_sge`, which does not show this. Checkers that read or poison the memory of
/// an element ask here, by its key. Builds without a checker keep nothing.
///
/// Threads: any.
#include <infiniband/verbs.h>

#include <cstdint>

namespace verbatim::detail {

/// While it lives, checkers leave the region's elements alone.
class Unaddressable {
 public:
  Unaddressable() noexcept = default;
  explicit Unaddressable(const ibv_mr* region);
  Unaddressable(Unaddressable&& other) noexcept;
  Unaddressable& operator=(Unaddressable&& other) noexcept;
  ~Unaddressable();
  [[nodiscard]] explicit operator bool() const noexcept { return context_ != nullptr; }

 private:
  const ibv_context* context_ = nullptr;
  std::uint32_t key_ = 0;
};

[[nodiscard]] bool is_addressable(const ibv_context* context, std::uint32_t local_key) noexcept;

}  // namespace verbatim::detail
