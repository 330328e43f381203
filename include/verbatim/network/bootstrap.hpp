// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a process learns which rank of a job it is, and where the job's coordinator listens.
///
/// There are four ways; docs/guide/starting.md has one section for each. They end in the same
/// Identity, and from there on everything is the same: Exchanger::join(identity), or Node::join.
/// Any thread, though pmix() one at a time.
#include <optional>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/network/identity.hpp"
#include "verbatim/network/network_config.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim {

struct ConfigOptions {
  /// Without: that of the environment (VERBATIM_SECRET or VERBATIM_SECRET_FILE), if there is one.
  std::optional<Secret> secret = {};
  /// Where rank 0 listens, if not at its own hostname and port: "0.0.0.0:7000", say, where that
  /// name is not one of this machine's (NAT, containers). Others do not look at it.
  std::string listen = {};
  std::string job = "verbatim";  ///< The same at every rank.
};

struct Bootstrap {
  /// What `verbatim run` sets, or a launcher of your own:
  ///   VERBATIM_RANK, VERBATIM_WORLD   this rank, and how many there are
  ///   VERBATIM_COORDINATOR            "host:port", or several, separated by commas
  ///   VERBATIM_SECRET                 64 hexadecimal digits, or
  ///   VERBATIM_SECRET_FILE            a file that has them, and that only its owner may read
  ///   VERBATIM_JOB                    a name, "verbatim" if it is not set
  /// `not_found` if none of them is set. Otherwise the first that is missing or wrong is an
  /// `invalid_argument` with its name. Who has no secret must have a coordinator on loopback, else
  /// it is `permission_denied`.
  [[nodiscard]] static Result<Identity> environment();

  /// Under mpirun, srun and others that serve PMIx. Rank 0 opens a coordinator on all addresses of
  /// its machine and publishes them, with a random secret, through PMIx. Collective: returns when
  /// every rank of the job has called it. `not_found` where there is no PMIx server or no
  /// libpmix.so.2. The last copy of the Identity ends the use of PMIx (PMIx_Finalize): keep it
  /// until the process has left the job; a Node does.
  [[nodiscard]] static Result<Identity> pmix(Timeout timeout);

  /// A rank of a file. Rank 0 coordinates: its Identity holds the open Coordinator. Its device is
  /// the file's `ibdev`. A rank that the file does not have, or a rank 0 without hostname or port,
  /// is `invalid_argument`; no secret and a coordinator beyond loopback `permission_denied`.
  [[nodiscard]] static Result<Identity> config(const NetworkConfig& network, Rank rank,
                                               const ConfigOptions& options = {});

  /// All ranks in this process, for tests and for threads that are to become processes one day. By
  /// rank; each holds the one Coordinator.
  [[nodiscard]] static Result<std::vector<Identity>> in_process(Rank world);

  /// environment(), and where nothing is set, pmix(). Neither: `not_found`, with all that was
  /// looked for. A variable that is set and wrong is an error, and PMIx is not asked.
  [[nodiscard]] static Result<Identity> find(Timeout timeout);
};

}  // namespace verbatim
