"""Ports of this machine for a server that is started with a number."""
import random
import socket


def free_ports(count):
    """Ports that nobody has, all different. They lie below those that the kernel gives out: there, whoever connects or asks for
    any port could have been given one of them before the server has it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        given_out = int(file.read().split()[0])
    found = []
    for port in random.sample(range(10_000, given_out), 100 + count):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"of {100 + count} ports between 10000 and {given_out - 1}, {len(found)} are free, and {count} are needed")
