// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The owner of one raw verbs object, of any kind.
///
/// It destroys the object through the table that created it, and logs a failure, because a
/// destructor cannot return one. At level debug it also logs what is created and destroyed. In a
/// forked child it does nothing: the object belongs to the parent.
#include <memory>
#include <utility>

#include "verbatim/base/error.hpp"
#include "verbatim/base/log.hpp"
#include "verbs/context_state.hpp"
#include "verbs/life_log.hpp"

namespace verbatim::detail {

template <class Raw>
class Handle {
 public:
  using Destroy = int (*)(Raw*);

  Handle(ContextPtr context, Raw* raw, Destroy destroy, const char* operation) noexcept
      : context_(std::move(context)), raw_(raw), destroy_(destroy), operation_(operation) {
    if (log_enabled()) log_life("created", name_of_object(raw_));
  }
  Handle(Handle&& other) noexcept
      : context_(std::move(other.context_)),
        raw_(std::exchange(other.raw_, nullptr)),
        destroy_(other.destroy_),
        operation_(other.operation_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (const int failed = destroy_now()) log_teardown(operation_, failed);
  }

  /// Destroys it now: returns 0, or the errno with which the device refused. Then the object stays.
  [[nodiscard]] int destroy_now() noexcept {
    if (raw_ == nullptr || context_->fork.in_child()) return 0;
    const ObjectName name = log_enabled() ? name_of_object(raw_) : ObjectName{};
    if (const int failed = destroy_(raw_)) return os_error_of(failed);
    if (name.text.front() != '\0') log_life("destroyed", name);
    raw_ = nullptr;
    return 0;
  }
  [[nodiscard]] Raw* get() const noexcept { return raw_; }
  [[nodiscard]] ContextState& context() const noexcept { return *context_; }
  [[nodiscard]] const ContextPtr& context_ptr() const noexcept { return context_; }
  [[nodiscard]] const Provider& provider() const noexcept { return context_->provider; }

 private:
  ContextPtr context_;
  Raw* raw_;
  Destroy destroy_;
  const char* operation_;
};

}  // namespace verbatim::detail
