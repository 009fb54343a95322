"""btsnoop files: records in and out, trimming to a connection, and the removal of keys.

No ATT value is decoded here. The only thing looked into is what has to go: keys, and traffic before the connection.
"""
import struct
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

H4, MONITOR = 1002, 2001
EPOCH_OFFSET = 0x00DCDDB30F2F8000      # microseconds from 0 AD, as btsnoop counts, to 1970-01-01
COMMAND, EVENT, ACL_OUT, ACL_IN = 2, 3, 4, 5      # the monitor's opcodes; H4 records are given the same
H4_KINDS = {(1, 0): COMMAND, (4, 1): EVENT, (2, 0): ACL_OUT, (2, 1): ACL_IN}
MONITOR_KEPT = range(0, 12)            # index and HCI records; beyond are notes and management traffic (with keys in it)


@dataclass(frozen=True)
class Record:
    microseconds: int                  # since 1970
    flags: int
    data: bytes
    datalink: int
    drops: int = 0

    @property
    def kind(self):
        if self.datalink == MONITOR:
            return self.flags & 0xFFFF
        return H4_KINDS.get((self.data[0] if self.data else None, self.flags & 1))

    @property
    def adapter(self):
        return self.flags >> 16 if self.datalink == MONITOR else 0

    @property
    def body(self):
        """The HCI packet without H4's type octet."""
        return self.data if self.datalink == MONITOR else self.data[1:]

    @property
    def time(self):
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=self.microseconds)

    def with_body(self, body):
        return replace(self, data=body if self.datalink == MONITOR else self.data[:1] + body)


def parse(content):
    magic, version, datalink = struct.unpack_from(">8sII", content)
    assert magic == b"btsnoop\0" and version == 1, "no btsnoop file"
    records, position = [], 16
    while position + 24 <= len(content):
        original, included, flags, drops, stamp = struct.unpack_from(">IIIIq", content, position)
        data = content[position + 24:position + 24 + included]
        if len(data) < included:
            break                      # the guest was still writing
        assert original == included, "a cut packet"
        records.append(Record(stamp - EPOCH_OFFSET, flags, data, datalink, drops))
        position += 24 + included
    return datalink, records


def build(datalink, records):
    return struct.pack(">8sII", b"btsnoop\0", 1, datalink) + b"".join(
        struct.pack(">IIIIq", len(each.data), len(each.data), each.flags, each.drops, each.microseconds + EPOCH_OFFSET)
        + each.data for each in records)


def from_tap(packets, to_guest_time):
    """H4 records of packets tapped at our side of the transport."""
    return [Record(to_guest_time(at), (1 if direction == "in" else 0) | (2 if packet[0] in (1, 4) else 0), packet, H4)
            for at, direction, packet in packets]


# ---- trimming

def is_create_connection(record):
    return record.kind == COMMAND and record.body[:2] in (b"\x0d\x20", b"\x43\x20")


def advertiser(record):
    """The address in a legacy advertising report, as on the wire, else None."""
    if record.kind == EVENT and record.body[:1] == b"\x3e" and record.body[2:3] == b"\x02":
        return record.body[6:12]
    return None


def trim(records, connection=1):
    """hci0's traffic from the given connection attempt on, the adapter's introduction, and the last
    advertisement of each device that is connected to; the other scan reports go."""
    kept = [each for each in records if each.datalink != MONITOR or (each.kind in MONITOR_KEPT and each.adapter == 0)]
    starts = [index for index, each in enumerate(kept) if is_create_connection(each)]
    start = starts[connection - 1]
    peers = {kept[index].body[9:15] for index in starts if index >= start}
    last = {advertiser(each): index for index, each in enumerate(kept[:start]) if advertiser(each) in peers}
    # hci0's index records (kinds 0, 8, 10) say whose traffic this is.
    early = sorted({index for index, each in enumerate(kept[:start])
                    if each.datalink == MONITOR and each.kind in (0, 8, 10)} | set(last.values()))
    # A second device may be first heard after the first connection.
    later, heard = [], set(last)
    for each in kept[start:]:
        address = advertiser(each)
        if address is None:
            later.append(each)
        elif address in peers and address not in heard:
            heard.add(address)
            later.append(each)
    return [kept[index] for index in early] + later


# ---- keys

# Where secrets are in a command (by opcode), in the return parameters of Command Complete (by opcode),
# in an event and in an LE meta event: (offset into the parameters, length).
COMMAND_KEYS = {
    0x2017: [(0, 32)],                 # LE Encrypt: key, plain text
    0x2019: [(2, 26)],                 # LE Enable Encryption: Rand, EDIV, LTK
    0x201A: [(2, 16)],                 # LE Long Term Key Request Reply
    0x2026: [(0, 64)], 0x205E: [(0, 64)],      # LE Generate DHKey: the peer's public key
    0x2027: [(7, 32)],                 # LE Add Device To Resolving List: both IRKs
    0x040B: [(6, 16)],                 # Link Key Request Reply
    0x0C11: [(7, 16)],                 # Write Stored Link Key
    0x0430: [(6, 32)], 0x0445: [(6, 64)],      # Remote OOB Data Request Reply
}
RETURN_KEYS = {0x2017: [(1, 16)], 0x2018: [(1, 8)], 0x0C57: [(1, 32)], 0x0C7D: [(1, 64)]}
EVENT_KEYS = {0x18: [(6, 16)], 0x15: [(7, 16)]}
META_KEYS = {0x05: [(2, 10)], 0x08: [(1, 64)], 0x09: [(1, 32)]}
# Security Manager PDUs: all that follows the code is a key, or lets one derive the key.
SMP_SECRET = {0x03, 0x04, 0x06, 0x07, 0x08, 0x0A, 0x0C, 0x0D}
SMP_CHANNEL = 6


def key_places(records):
    """(index of the record, offset into its body, length) of each place where a key may stand. SMP PDUs longer than
    a link layer packet are followed through their ACL fragments."""
    open_pdus = {}                     # (direction, handle) → [wanted length, received, channel, code]
    for index, record in enumerate(records):
        body = record.body
        if record.kind == COMMAND:
            for offset, length in COMMAND_KEYS.get(int.from_bytes(body[:2], "little"), []):
                yield index, 3 + offset, length
        elif record.kind == EVENT and body[0] == 0x0E:
            for offset, length in RETURN_KEYS.get(int.from_bytes(body[3:5], "little"), []):
                yield index, 5 + offset, length
        elif record.kind == EVENT and body[0] == 0x3E:
            for offset, length in META_KEYS.get(body[2], []):
                yield index, 3 + offset, length
        elif record.kind == EVENT:
            for offset, length in EVENT_KEYS.get(body[0], []):
                yield index, 2 + offset, length
        elif record.kind in (ACL_OUT, ACL_IN):
            header = int.from_bytes(body[:2], "little")
            key, boundary, data = (record.kind, header & 0xFFF), header >> 12 & 3, body[4:]
            if boundary != 1:          # a first fragment
                length, channel = struct.unpack_from("<HH", data)
                open_pdus[key] = [length + 4, 0, channel, data[4] if len(data) > 4 else None]
            wanted, received, channel, code = open_pdus[key]
            open_pdus[key][1] += len(data)
            if channel == SMP_CHANNEL and code in SMP_SECRET:
                start = max(0, 5 - received)       # 4 octets L2CAP header, 1 octet code
                yield index, 4 + start, len(data) - start


def secrets_in(records):
    """What stands in those places, other than zeros."""
    found = []
    for index, offset, length in key_places(records):
        octets = records[index].body[offset:offset + length]
        if any(octets):
            found.append(octets)
    return found


def without_keys(records):
    cleaned = list(records)
    for index, offset, length in key_places(records):
        body = cleaned[index].body
        end = min(offset + length, len(body))
        cleaned[index] = cleaned[index].with_body(body[:offset] + bytes(max(0, end - offset)) + body[end:])
    return cleaned


def without_secrets(records, secrets):
    """Zeros in place of octets that are written as values: no place in the protocol tells them."""
    cleaned = list(records)
    for secret in secrets:
        for index, record in enumerate(cleaned):
            if secret in record.body:
                cleaned[index] = record.with_body(record.body.replace(secret, bytes(len(secret))))
    return cleaned
