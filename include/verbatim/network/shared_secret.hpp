// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Listener and dial() only for processes that know the job's secret.
///
///     options.admit = admit_by_secret(secret);   // at both ends
///
/// Each side proves that it knows the secret, without showing it. Endpoints and private data are
/// then encrypted and authenticated, with keys for this meeting alone. RDMA data itself is neither.
#include "verbatim/channel/admission.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim {

/// For `admit` of ListenOptions and DialOptions. A peer that does not know the secret is
/// `permission_denied`, and learns nothing else.
[[nodiscard]] AdmitPeer admit_by_secret(const Secret& secret);

}  // namespace verbatim
