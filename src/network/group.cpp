// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/group.hpp"

#include <utility>

#include "channel/completion_core.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {

Result<std::unique_ptr<Group>> Group::create(const ProtectionDomain& domain, Reactor& reactor,
                                             Rank rank, Rank world) {
  const std::size_t bytes = kSlotBytes * world;
  auto slots = VERBATIM_TRY(domain.allocate_shared(bytes, Access::remote_write));
  auto outgoing = VERBATIM_TRY(domain.allocate(bytes));
  return std::make_unique<Group>(reactor, rank, world, std::move(slots), std::move(outgoing));
}

Group::Group(Reactor& on, Rank own, Rank size, SharedRegion in, Buffer out)
    : rank(own),
      world(size),
      peers(size),
      slots(std::move(in)),
      outgoing(std::move(out)),
      reactor(&on),
      core(SharedCompletions{on}.core()),
      life(std::make_shared<GroupLife>(this)) {}

Group::~Group() { life->group = nullptr; }

void Group::begin_generation(std::uint32_t number) {
  generation = number;
  open = nullptr;
  is_out_of_step = false;
  for (GroupPeer& peer : peers) {
    peer.sent = 0;
    peer.awaited = 0;
    peer.out_of_step = false;
  }
  // A flag holds only 8 bits of the generation, so a very old flag would match again.
  for (std::size_t at = 0; at < slots.size(); at += kSlotBytes)
    slots.store_release<std::uint64_t>(at, 0);
}

}  // namespace verbatim::detail
