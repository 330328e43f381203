// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Logs what is created and destroyed, at level debug. Objects have the same name there and
/// in to_string().
#include <infiniband/verbs.h>

#include <array>

#include "verbatim/base/ids.hpp"

namespace verbatim::detail {

/// "queue pair 0x000040 on soft0". No allocation: destructors use it.
struct ObjectName {
  std::array<char, 160> text{};
};
[[nodiscard]] ObjectName name_of_object(const ibv_qp* raw) noexcept;
/// The same, also for one that is gone.
[[nodiscard]] ObjectName name_of_queue_pair(QpNumber number, const ibv_context* context) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_cq* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_srq* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_mr* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_pd* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_ah* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_comp_channel* raw) noexcept;
[[nodiscard]] ObjectName name_of_object(const ibv_context* raw) noexcept;

/// "created queue pair 0x000040 on soft0".
void log_life(const char* what, const ObjectName& object) noexcept;

}  // namespace verbatim::detail
