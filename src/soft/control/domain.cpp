// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/domain.hpp"

#include <cerrno>
#include <new>

#include "soft/shared/engine.hpp"

namespace verbatim::engine {

ibv_pd* allocate_domain(ibv_context* raw) noexcept {
  Context& context = Context::of(raw);
  auto* const domain = new (std::nothrow) Domain{};
  if (domain == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  domain->id = context.engine->next_domain.fetch_add(1);
  domain->raw.context = raw;
  domain->raw.handle = domain->id;
  context.objects.fetch_add(1);
  return &domain->raw;
}

int free_domain(ibv_pd* raw) noexcept {
  auto* const domain = reinterpret_cast<Domain*>(raw);
  if (domain->users.load() != 0) return EBUSY;
  Context::of(raw->context).objects.fetch_sub(1);
  delete domain;
  return 0;
}

}  // namespace verbatim::engine
