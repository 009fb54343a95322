"""The air of the lab: bumble's software link, with what a real Linux kernel needs of it put right.

Each class mends one thing of bumble 0.0.236 and says which.
"""
import asyncio
import time

from bumble import hci, ll
from bumble.controller import Controller
from bumble.core import PhysicalTransport
from bumble.device import Device
from bumble.link import LocalLink
from bumble.transport import open_transport

# A link layer without Data Length Extension carries 27 octets a packet; real controllers hand
# longer L2CAP PDUs to their host in pieces of that size.
LINK_PAYLOAD = 27


class Link(LocalLink):
    """bumble names the sender by its random address; hci0 connects with its public one."""

    def send_acl_data(self, sender_controller, destination_address, transport, data):
        if transport != PhysicalTransport.LE:
            return super().send_acl_data(sender_controller, destination_address, transport, data)
        connection = sender_controller.le_connections.get(destination_address)
        source = connection.self_address if connection else sender_controller.random_address
        receiver = self.find_le_controller(destination_address)
        if receiver:
            asyncio.get_running_loop().call_soon(receiver.on_link_acl_data, source, transport, data)


class KernelController(Controller):
    """The controller behind the guest's hci0. `tap(direction, packet)` sees each H4 packet, "in" to the kernel or "out" of it."""

    # Linux waits for the Enhanced Connection Complete where these are offered; bumble sends the plain one.
    le_features = Controller.le_features & ~(hci.LeFeatureMask.LL_PRIVACY
                                             | hci.LeFeatureMask.LE_EXTENDED_ADVERTISING
                                             | hci.LeFeatureMask.LE_PERIODIC_ADVERTISING)
    tap = None
    detached = False                   # an adapter that was pulled out: nothing reaches the kernel

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.accept_list, self.reported = set(), set()
        self.strength = {}             # address → dBm, where it is not the usual
        self.scan_responses = {}       # address → what answers an active scan, where it is not the advertisement
        self.octets_left = {}          # address → how many octets from there still arrive before that link is lost
        self.connections_made = []     # (our monotonic time, handle, address)

    def send_hci_packet(self, packet):
        if not self.detached:
            super().send_hci_packet(packet)

    def on_packet(self, packet):
        if self.tap:
            self.tap("out", packet)
        super().on_packet(packet)

    def on_link_acl_data(self, sender_address, transport, data):
        """bumble hands whole PDUs up ("TODO: should fragment")."""
        connection = self.le_connections.get(sender_address) if transport == PhysicalTransport.LE else None
        if connection is None:
            return super().on_link_acl_data(sender_address, transport, data)
        for start in range(0, len(data), LINK_PAYLOAD):
            piece = data[start:start + LINK_PAYLOAD]
            if str(sender_address) in self.octets_left:
                self.octets_left[str(sender_address)] -= len(piece)
                if self.octets_left[str(sender_address)] < 0:
                    del self.octets_left[str(sender_address)]
                    return lose(self, connection)
            self.send_hci_packet(hci.HCI_AclDataPacket(connection.handle, 1 if start else 2, 0, len(piece), piece))

    def on_hci_le_create_connection_cancel_command(self, command):
        """bumble answers the cancel but never ends the pending connection with an event."""
        pending = self.pending_le_connection
        if pending is None:
            return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.COMMAND_DISALLOWED_ERROR)
        self.pending_le_connection = None
        asyncio.get_running_loop().call_soon(self.send_hci_packet, hci.HCI_LE_Connection_Complete_Event(
            status=hci.HCI_ErrorCode.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, connection_handle=0, role=hci.Role.CENTRAL,
            peer_address_type=pending.peer_address.address_type, peer_address=pending.peer_address,
            connection_interval=0, peripheral_latency=0, supervision_timeout=0, central_clock_accuracy=0))
        return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.SUCCESS)

    def create_le_connection(self, peer_address):
        super().create_le_connection(peer_address)
        if connection := self.le_connections.get(peer_address):
            self.connections_made.append((time.monotonic(), connection.handle, str(peer_address)))

    def on_hci_disconnect_command(self, command):
        """bumble is done at once; on the air the other side answers some connection intervals later, and the event says
        that it was this host's wish."""
        connection = self.find_le_connection_by_handle(command.connection_handle)
        if connection is None:
            return super().on_hci_disconnect_command(command)
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)

        def end():
            if self.le_connections.get(connection.peer_address) is connection:
                connection.send_ll_control_pdu(ll.TerminateInd(command.reason))
                self.on_le_disconnected(connection, hci.HCI_ErrorCode.CONNECTION_TERMINATED_BY_LOCAL_HOST_ERROR)

        asyncio.get_running_loop().call_later(0.06, end)

    # ---- what bumble accepts and does not do

    def on_hci_reset_command(self, command):
        """bumble forgets nothing; of a real adapter the others lose the link, and hear nothing of it."""
        for connection in list(self.le_connections.values()):
            lose(self, connection, told=False)
        self.pending_le_connection, self.le_scan_enable = None, False
        self.accept_list.clear()
        return super().on_hci_reset_command(command)

    def on_hci_le_set_scan_enable_command(self, command):
        self.reported.clear()
        return super().on_hci_le_set_scan_enable_command(command)

    def on_hci_le_clear_filter_accept_list_command(self, command):
        self.accept_list.clear()
        return super().on_hci_le_clear_filter_accept_list_command(command)

    def on_hci_le_add_device_to_filter_accept_list_command(self, command):
        self.accept_list.add(bytes(command.address))
        return super().on_hci_le_add_device_to_filter_accept_list_command(command)

    def on_hci_le_remove_device_from_filter_accept_list_command(self, command):
        self.accept_list.discard(bytes(command.address))
        return super().on_hci_le_remove_device_from_filter_accept_list_command(command)

    def on_advertising_pdu(self, pdu):
        """bumble reports all it hears, again and again, and a scan response to a passive scan."""
        address, kinds = pdu.advertiser_address, hci.HCI_LE_Advertising_Report_Event.EventType
        is_wanted = not self.le_scanning_filter_policy & 1 or bytes(address) in self.accept_list
        if self.le_scan_enable and is_wanted:
            for kind in (kinds.ADV_IND, kinds.SCAN_RSP) if self.le_scan_type else (kinds.ADV_IND,):
                data = self.scan_responses.get(str(address), pdu.data) if kind == kinds.SCAN_RSP else pdu.data
                seen = (bytes(address), kind, data)
                if self.filter_duplicates and seen in self.reported:
                    continue
                self.reported.add(seen)
                self.send_hci_packet(hci.HCI_LE_Advertising_Report_Event([hci.HCI_LE_Advertising_Report_Event.Report(
                    event_type=kind, address_type=address.address_type, address=address, data=data,
                    rssi=self.strength.get(str(address), -50))]))
        if self.pending_le_connection and self.pending_le_connection.peer_address == address:
            self.create_le_connection(address)


def lose(controller, connection, told=True, reason=hci.HCI_ErrorCode.CONNECTION_TIMEOUT_ERROR):
    """A link that is gone without a word, as out of reach: both ends notice by time-out, but ours not where it was reset."""
    other = controller.link.find_le_controller(connection.peer_address)
    theirs = other and other.le_connections.get(connection.self_address)
    if theirs:
        other.on_le_disconnected(theirs, reason)
    if controller.le_connections.get(connection.peer_address) is connection:
        if told:
            controller.on_le_disconnected(connection, reason)
        else:
            del controller.le_connections[connection.peer_address]


class MeterDevice(Device):
    """As a legacy responder bumble stores its key as ltk_central and answers with the peer's; a reconnect then fails."""

    async def get_long_term_key(self, connection_handle, rand, ediv):
        connection = self.lookup_connection(connection_handle)
        if (self.keystore is not None and connection and connection.role == hci.Role.PERIPHERAL
                and self.smp_manager.get_long_term_key(connection, rand, ediv) is None):
            keys = await self.keystore.get(str(connection.peer_address))
            if keys and not keys.ltk and keys.ltk_central:
                return keys.ltk_central.value
        return await super().get_long_term_key(connection_handle, rand, ediv)


class H4Reader:
    """The kernel may throw away the rest of a packet that it has begun to send, when an adapter is switched off: a
    parser that waits for it takes what follows for its octets, for ever. A pause tells such a packet from a slow one."""

    PAUSE = 0.5

    def __init__(self, parser):
        self.parser, self.last = parser, 0.0

    def feed_data(self, data):
        now = time.monotonic()
        if now - self.last > self.PAUSE:
            self.parser.reset()
        self.last = now
        self.parser.feed_data(data)


class TappedSink:
    def __init__(self, sink, controller):
        self.sink, self.controller = sink, controller

    def on_packet(self, packet):
        if not self.controller.detached:
            self.controller.tap("in", packet)
            self.sink.on_packet(packet)


class Air:
    """The link, the guest's controller on it, and every HCI packet of the guest with our monotonic time."""

    ADAPTER = "AA:BB:CC:00:00:01"

    def __init__(self):
        self.link = Link()
        self.packets = []

    async def attach(self, hci_path):
        self.transport = await open_transport(f"unix:{hci_path}")
        self.controller = KernelController("hci0", host_source=self.transport.source, host_sink=self.transport.sink,
                                           link=self.link, public_address=self.ADAPTER)
        self.transport.source.parser = H4Reader(self.transport.source.parser)
        self.controller.tap = lambda direction, packet: self.packets.append((time.monotonic(), direction, bytes(packet)))
        self.controller.host = TappedSink(self.transport.sink, self.controller)

    async def close(self):
        await self.transport.close()
