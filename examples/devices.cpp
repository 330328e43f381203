// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists every RDMA device: what it is, whether its ports work, and which addresses they have.
#include <verbatim/verbatim.hpp>

#include <cstdio>

namespace vb = verbatim;

namespace {

const char* name_of(vb::Transport transport) {
  switch (transport) {
    case vb::Transport::hardware: return "hardware";
    case vb::Transport::kernel_software: return "kernel software";
    case vb::Transport::soft: return "soft";
  }
  return "unknown";
}

vb::Result<void> show(const vb::Device& device) {
  const auto context = VERBATIM_TRY(device.open());
  const auto& can = context.capabilities();
  std::printf("%s  guid %s  %s\n", std::string{context.name()}.c_str(),
              vb::to_string(context.guid()).c_str(), name_of(context.transport()));
  std::printf("  queue pairs %u, requests per queue %u, elements per request %u, atomics %s\n",
              can.max_queue_pairs, can.max_requests, can.max_elements, can.atomics ? "yes" : "no");
  for (std::uint8_t number = 1; number <= can.port_count; ++number) {
    const auto port = VERBATIM_TRY(context.query_port(number));
    std::printf("  port %u: %s, %s, mtu %u\n", number, vb::to_string(port.state),
                vb::to_string(port.link_layer), vb::byte_count(port.active_mtu));
    for (const auto& entry : VERBATIM_TRY(context.query_gid_table(number)))
      std::printf("    gid %u: %s\n", entry.index, vb::to_string(entry.gid).c_str());
  }
  return {};
}

vb::Result<void> show_all() {
  const auto devices = VERBATIM_TRY(vb::list_devices());
  if (devices.empty()) std::printf("no RDMA device on this machine\n");
  for (const auto& device : devices) VERBATIM_TRY(show(device));
  return {};
}

}  // namespace

int main() {
  if (const auto shown = show_all(); !shown) {
    std::fprintf(stderr, "%s\n", vb::explain(shown.error()).c_str());
    return 1;
  }
}
