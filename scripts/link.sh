# SPDX-License-Identifier: Apache-2.0
# A link of a given rate between two processes, for demo and benchmarks. Sourced, not run.
#
#   link_up GBPS   sets the variables below; link_down undoes everything, also after a failure
#
#   on_sender, on_receiver   what to put before a command so that it runs at that end
#   link_receiver            the receiver's host address
#   link_options             options that both ends' cinch needs for this link
#   link_shaped              true when the kernel limits the rate, false when cinch paces itself
#   link_description         what it is, in words

on_sender=() on_receiver=() link_options=() link_receiver=127.0.0.1 link_shaped=false
link_description='' link_error=''
link_names=("cinch-send-$$" "cinch-recv-$$")

link_down() {
  local name
  for name in "${link_names[@]}"; do
    ip netns del "$name" 2>/dev/null || true
  done
}

# Two namespaces and a veth pair between them. Only the sender's end is shaped: data go one way.
# Jumbo frames, as between the machines of a cluster; the burst (8 ms at 2 Gbit/s) makes up for late
# timers, without which a busy machine would not reach the rate.
link_try_namespaces() {
  local sender=${link_names[0]} receiver=${link_names[1]}
  ip netns add "$sender" &&
    ip netns add "$receiver" &&
    ip -n "$sender" link add cinch0 mtu 9000 type veth peer name cinch0 mtu 9000 netns "$receiver" &&
    ip -n "$sender" addr add 10.213.77.1/30 dev cinch0 &&
    ip -n "$receiver" addr add 10.213.77.2/30 dev cinch0 &&
    ip -n "$sender" link set lo up && ip -n "$receiver" link set lo up &&
    ip -n "$sender" link set cinch0 up && ip -n "$receiver" link set cinch0 up &&
    tc -n "$sender" qdisc add dev cinch0 root tbf rate "${1}gbit" burst 2mb latency 50ms \
      peakrate "$(awk "BEGIN { print 1.1 * $1 }")gbit" minburst 70kb
}

# The kernel reports a carrier a moment after both ends are up, and UCX skips devices without one.
link_wait() {
  local name turn
  for name in "${link_names[@]}"; do
    for turn in {1..100}; do
      [[ $(ip -n "$name" -o link show cinch0) == *"state UP"* ]] && break
      sleep 0.05
    done
  done
}

link_up() {
  # Shared memory would bypass the link: it does not care about network namespaces.
  link_options=(--transports tcp)
  if ((EUID != 0)); then
    link_error="this user is not root"
  elif ! link_error=$(link_try_namespaces "$1" 2>&1 | head -n 1) || [[ -n $link_error ]]; then
    link_down
    link_error=${link_error:-network namespaces are not allowed here}
  else
    on_sender=(ip netns exec "${link_names[0]}")
    on_receiver=(ip netns exec "${link_names[1]}")
    link_receiver=10.213.77.2
    link_shaped=true
    link_wait
    link_description="link: a veth pair between two network namespaces, shaped by the kernel (tc tbf) to $1 Gbit/s"
    return
  fi
  link_options+=(--link-gbps "$1")
  link_description="link: TCP over loopback, paced by cinch itself to $1 Gbit/s ($link_error)"
}
