"""Meters that live as long as a test wants them, misbehave as real ones do, and keep a log of what they did."""
import asyncio
import random
import time
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from bumble import att
from bumble.pairing import PairingConfig, PairingDelegate

from .definitions import Together
from .documents import ZONE, Unclear
from .meters import ABORT, COUNT, COUNT_ANSWER, ANSWER, OPERATOR_UNKNOWN, REPORT, Delegate
from .oddities import Oddities
from .radio import lose

CAPABILITIES = {"just_works": PairingDelegate.NO_OUTPUT_NO_INPUT, "passkey": PairingDelegate.DISPLAY_OUTPUT_ONLY,
                "numeric": PairingDelegate.DISPLAY_OUTPUT_AND_YES_NO_INPUT, "keyboard": PairingDelegate.KEYBOARD_INPUT_ONLY}


@dataclass
class Behaviour:
    """What a meter does beside answering as the profile says, and what its user does. All may change while it lives."""
    # pairing
    pairing: str = None             # a key of CAPABILITIES; None: as the definition's `passkey` says
    secure_connections: bool = True
    refuses_pairing: bool = False
    refuses_known: bool = False     # refuses a host that it still holds a bond with
    confirms: bool = True           # numeric comparison: what its user says
    bond_slots: int = None          # how many hosts it remembers; the oldest goes
    leaves_after_bonding: bool = False
    # advertising
    advertises: str = "always"      # "until_bonded": later from its button to the next disconnect; "never"
    advertising_data: str = None    # octets instead of its own
    rssi: int = -50
    # the attribute protocol
    mute: bool = False              # answers nothing, sends nothing, stays connected
    cccd_error: int = None          # refuses the configuration descriptors with this code
    write_error: int = None         # refuses what is written to its control point with this code
    clock_error: int = None         # refuses what is written to its clock with this code; None: it cannot be written at all
    # its memory
    order: str = "ascending"        # or "descending", "shuffled"
    numbers_by_age: bool = False    # the newest is 0
    empty_partners: bool = False    # behind each record an empty one, numbered FFFF
    loses_subscriptions_before: float = 0.0    # of a cuff, in seconds after the link is encrypted
    refused_operators: tuple = ()   # answered "operator not supported"
    report_code: int = None         # the answer to every report, without records
    count_code: int = None          # the answer to every count
    count_off_by: int = 0
    ignores_abort: bool = False
    duplicates: bool = False        # sends each value twice
    rubbish: int = None             # a seed: frames that are no records between the records
    deletes_confirmed: bool = False
    leaves_when_done: bool = False
    remembers_subscriptions: bool = False      # of bonded hosts; on their return it sends at once, as the profile allows
    # the link: once, then it is as before
    drop_after_records: int = None
    drop_after_octets: int = None   # of L2CAP, so in the middle of a frame too
    drop_at_indication: int = None  # the how-manieth, from 1
    drop_when: str = "unconfirmed"  # "before" it is sent, "unconfirmed": before its confirmation is heard, "confirmed"
    drop_way: str = "lost"          # out of reach, or "terminated": the meter says goodbye
    silent_after: int = None        # after so many records it is connected and still

    def change(self, document):
        for name, value in document.items():
            if name not in {each.name for each in fields(self)}:
                raise Unclear(f"no meter behaves by {name}")
            setattr(self, name, value)


class LiveDelegate(Delegate):
    def __init__(self, emulation):
        super().__init__(emulation)
        self.io_capability = CAPABILITIES[emulation.way_of_pairing]

    async def accept(self):
        emulation = self.emulation
        emulation.shown_passkey = None
        refused = emulation.behaviour.refuses_pairing or (emulation.behaviour.refuses_known and await emulation.bonds())
        emulation.log("pairing_refused" if refused else "pairing_asked")
        return not refused

    async def display_number(self, number, digits):
        self.emulation.shown_passkey = number
        self.emulation.log("shows", passkey=number)

    async def compare_numbers(self, number, digits):
        await self.display_number(number, digits)
        return self.emulation.behaviour.confirms

    async def get_number(self):
        self.emulation.log("asks_for_passkey")
        return await self.emulation.typed.get()


class LiveMeter(Oddities):
    """A meter of a test. Its definition's records are its memory; `ever` keeps what was deleted, too."""

    Manners = Behaviour                # what its behaviour may be

    def __init__(self, meter, behaviour, air, clock=None, sent=None):
        super().__init__(meter, air, clock or self.shown_time, [] if sent is None else sent)
        self.behaviour, self.ever, self.events = behaviour, list(meter.records), []
        self.typed, self.changed = asyncio.Queue(), asyncio.Condition()
        self.connection, self.awake, self.indications = None, True, 0
        self.remembered, self.indicated, self.first_clock = {}, None, meter.clock

    def shown_time(self, ahead):
        now = datetime.now(ZoneInfo(ZONE)).replace(tzinfo=None, microsecond=0)
        return now + timedelta(seconds=ahead)

    @property
    def way_of_pairing(self):
        return self.behaviour.pairing or ("passkey" if self.meter.passkey else "just_works")

    def log(self, event, **more):
        self.events.append({"at": round(time.monotonic(), 6), "event": event} | more)
        asyncio.ensure_future(self.tell())

    async def tell(self):
        async with self.changed:
            self.changed.notify_all()

    def name_of(self, record):
        """A record in the log: its place among all that the meter ever held."""
        if isinstance(record, Together):
            record = record.records[0]
        return next(index for index, each in enumerate(self.ever) if each is record)

    # ---- the device

    async def start(self):
        await super().start()
        server = self.device.gatt_server
        send, write, confirmed = server.send_gatt_pdu, server.write_cccd, server.on_att_handle_value_confirmation

        def send_unless_mute(bearer, pdu):
            if not self.behaviour.mute:
                send(bearer, pdu)

        def write_unless_refused(bearer, characteristic, value):
            if self.behaviour.cccd_error is not None and any(value):
                raise att.ATT_Error(self.behaviour.cccd_error)
            self.log("configured", characteristic=characteristic.uuid.to_hex_str().lower(), value=bytes(value).hex())
            write(bearer, characteristic, value)

        def on_confirmation(bearer, confirmation):
            self.on_confirmed()
            confirmed(bearer, confirmation)
        server.send_gatt_pdu, server.write_cccd = send_unless_mute, write_unless_refused
        server.on_att_handle_value_confirmation = on_confirmation

    def pairing(self):
        return PairingConfig(
            identity_address_type=PairingConfig.AddressType.RANDOM, sc=self.behaviour.secure_connections,
            mitm=self.way_of_pairing != "just_works", bonding=True, delegate=LiveDelegate(self))

    def advertisement(self):
        if self.behaviour.advertising_data is not None:
            return bytes.fromhex(self.behaviour.advertising_data)
        return super().advertisement()

    async def advertise(self, restarts=False):
        """Advertises, or not, as it should now."""
        self.air.controller.strength[str(self.device.random_address)] = self.behaviour.rssi
        bonded = bool(await self.bonds())
        allowed = {"always": True, "never": False, "until_bonded": self.awake or not bonded}[self.behaviour.advertises]
        if self.connection is None and allowed:
            await super().advertise(restarts=False)
            self.log("advertises")
        else:
            await self.device.stop_advertising()

    async def rest(self):
        """After a disconnect."""
        if await self.bonds():
            self.awake = False
        await self.advertise()

    async def begin_anew(self):
        """As it was when it came, with the bonds it has made since."""
        self.drop()
        pairing = self.behaviour.pairing
        self.behaviour, self.awake, self.meter.clock = self.Manners(pairing=pairing), True, self.first_clock
        self.meter.records[:] = []
        self.ever, self.remembered = [], {}
        await asyncio.sleep(0.01)              # the disconnect is heard
        self.events.clear()
        await self.advertise()

    async def press(self):
        """Its button: awake until the next disconnect."""
        self.awake = True
        await self.advertise()

    async def stop(self):
        self.behaviour.advertises = "never"
        await self.device.stop_advertising()
        self.drop()
        await asyncio.sleep(0)
        await super().stop()
        self.air.link.remove_controller(self.controller)

    def drop(self, way="lost"):
        if self.connection is None:
            return
        if way == "terminated":
            asyncio.ensure_future(self.connection.disconnect())
            return
        for link in list(self.controller.le_connections.values()):
            lose(self.controller, link)

    # ---- bonds

    async def bonds(self):
        """The hosts it remembers."""
        return [name for name, _ in await self.device.keystore.get_all()] if self.device.keystore else []

    async def forget(self):
        await self.device.keystore.delete_all()

    async def on_bonded(self):
        kept = await self.bonds()
        for oldest in kept[:-self.behaviour.bond_slots] if self.behaviour.bond_slots else []:
            await self.device.keystore.delete(oldest)
        self.log("bonded", hosts=await self.bonds())
        self.awake, self.shown_passkey = False, None
        if self.behaviour.leaves_after_bonding:
            await asyncio.sleep(0.5)           # the keys are on their way
            if self.connection:
                await self.connection.disconnect()

    # ---- events

    def on_connection(self, connection):
        super().on_connection(connection)
        self.connection, self.indications, self.indicated, self.abort = connection, 0, None, False
        peer = str(connection.peer_address)
        self.log("connected", host=peer)

        def ended(reason):
            self.remembered[peer] = dict(self.device.gatt_server.subscribers.get(connection, {}))
            self.connection, self.transfer, self.shown_passkey = None, None, None
            self.log("disconnected", reason=reason)
            asyncio.ensure_future(self.rest())

        connection.on("disconnection", ended)
        connection.on("pairing", lambda keys: asyncio.ensure_future(self.on_bonded()))
        connection.on("pairing_failure", lambda reason: self.log("pairing_failed", reason=int(reason)))
        connection.on("connection_encryption_change", lambda: self.on_encryption(connection))

    def on_encryption(self, connection):
        self.log("encrypted")
        self.ready_at = time.monotonic()
        remembered = self.remembered.get(str(connection.peer_address))
        if self.behaviour.remembers_subscriptions and remembered:
            self.device.gatt_server.subscribers[connection] = remembered
            cuff = self.characteristics.get(0x2A35)
            if cuff is not None and remembered.get(cuff.handle, b"\0")[0] & 2:
                self.on_subscription(connection, cuff, False, True)

    def on_subscription(self, connection, characteristic, notify, indicate):
        soon = time.monotonic() - getattr(self, "ready_at", 0) < self.behaviour.loses_subscriptions_before
        if characteristic is self.characteristics[0x2A35] and indicate and soon:
            return self.log("subscription_lost")
        busy = self.transfer is not None and not self.transfer.done()
        if characteristic is self.characteristics[0x2A35] and indicate and not busy:
            self.transfer = asyncio.ensure_future(self.send_all(connection))

    async def send_all(self, connection):
        """A cuff's transfer."""
        await self.send_records(connection, list(self.meter.records))
        self.log("done")
        if self.behaviour.leaves_when_done:
            await asyncio.sleep(0.05)
            await connection.disconnect()

    def on_clock_set(self, value):
        self.log("clock_set", hex=value.hex())

    @property
    def on_time_written(self):
        return None if self.behaviour.clock_error is None else self.refuse_time

    def refuse_time(self, connection, value):
        self.log("clock_refused", hex=bytes(value).hex())
        raise att.ATT_Error(self.behaviour.clock_error)

    def add(self, records):
        """It measures."""
        self.meter.records += records
        self.ever += records

    async def measured(self):
        """What follows a measurement."""

    def erase(self):
        self.meter.records[:] = []

    def on_access_point(self, connection, value):
        self.log("asked", hex=bytes(value).hex())
        if self.behaviour.write_error is not None:
            raise att.ATT_Error(self.behaviour.write_error)
        if self.behaviour.ignores_abort and bytes(value[:1]) == bytes([ABORT]):
            return
        super().on_access_point(connection, value)

    # ---- what it answers

    async def answer(self, connection, value):
        codes = {REPORT: self.behaviour.report_code, COUNT: self.behaviour.count_code}
        code = codes.get(value[0]) if value else None
        if code is not None:
            await self.send(connection, 0x2A52, bytes([ANSWER, 0, value[0], code]))
        else:
            await super().answer(connection, value)

    def select(self, operator, operand):
        if operator in self.behaviour.refused_operators:
            return OPERATOR_UNKNOWN, []
        self.numbered(self.meter.records)
        code, chosen = super().select(operator, operand)
        chosen = list(chosen)
        if self.behaviour.order == "descending":
            chosen.reverse()
        elif self.behaviour.order == "shuffled":
            random.Random(len(chosen)).shuffle(chosen)
        return code, chosen

    async def send(self, connection, characteristic, value, record=None):
        if characteristic == 0x2A52 and value[0] == COUNT_ANSWER and self.behaviour.count_off_by:
            value = value[:2] + (int.from_bytes(value[2:4], "little") + self.behaviour.count_off_by).to_bytes(2, "little")
        more = {} if record is None else {"record": self.name_of(record)}
        attribute = self.characteristics[characteristic]
        configured = self.device.gatt_server.subscribers.get(connection, {}).get(attribute.handle, b"\0\0")[0]
        if not configured & 3 or self.connection is not connection:
            self.log("not_wanted", characteristic=f"{characteristic:04x}", **more)
            raise asyncio.CancelledError
        self.indicated = record if configured & 2 else None
        self.log("sent", characteristic=f"{characteristic:04x}", hex=value.hex(), **more)
        await super().send(connection, characteristic, value, record)

    def on_confirmed(self):
        """The host's confirmation is here: what many cuffs take for a receipt."""
        record, self.indicated = self.indicated, None
        if record is None:
            return
        self.log("confirmed", record=self.name_of(record))
        if self.behaviour.deletes_confirmed:
            self.meter.records[:] = [each for each in self.meter.records if each is not record]
            self.log("deleted", record=self.name_of(record))

    async def send_records(self, connection, records):
        """Sends them; False if the host aborted. A fault of the link happens once."""
        records = self.parcels(records)
        behaviour, noise = self.behaviour, random.Random(self.behaviour.rubbish)
        if behaviour.drop_after_octets is not None:
            self.air.controller.octets_left[str(connection.self_address)] = behaviour.drop_after_octets
            behaviour.drop_after_octets = None
        for count, record in enumerate(records):
            if count == behaviour.drop_after_records:
                behaviour.drop_after_records = None
                await self.end(connection, settle=0.3)
            if behaviour.silent_after is not None and count >= behaviour.silent_after:
                self.log("silent")
                while not self.abort:
                    await asyncio.sleep(0.02)
            if behaviour.rubbish is not None:
                await self.send_rubbish(connection, noise)
            for characteristic, value in record.frames():
                if self.abort:
                    self.abort = False
                    return False
                for _ in range(2 if behaviour.duplicates else 1):
                    if characteristic == 0x2A35:
                        await self.indicate(connection, value, record)
                    else:
                        await self.send(connection, characteristic, value, record)
                    await asyncio.sleep(self.meter.pace)
            await self.send_partner(connection)
        return True

    async def indicate(self, connection, value, record):
        self.indications += 1
        if self.indications != self.behaviour.drop_at_indication:
            return await self.send(connection, 0x2A35, value, record)
        self.behaviour.drop_at_indication = None
        if self.behaviour.drop_when == "confirmed":
            await self.send(connection, 0x2A35, value, record)
        elif self.behaviour.drop_when == "unconfirmed":
            sending = asyncio.ensure_future(self.send(connection, 0x2A35, value, record))
            for _ in range(8):                 # through the emulated controllers, no further
                await asyncio.sleep(0)
            sending.cancel()
        await self.end(connection)

    async def end(self, connection, settle=0):
        await asyncio.sleep(settle)            # what is on its way arrives
        self.log("drops")
        self.drop(self.behaviour.drop_way)
        raise asyncio.CancelledError

    async def send_rubbish(self, connection, noise):
        """Frames that are no records by any reading of them: too short for their flags, or empty."""
        if self.meter.service == 0x1810:
            octets = bytes([0x1F]) + noise.randbytes(noise.randint(0, 5))
            return await self.send(connection, 0x2A35, octets if noise.random() < 0.8 else b"")
        octets = bytes([0x1F]) + noise.randbytes(noise.randint(0, 8))
        await self.send(connection, noise.choice([0x2A18, 0x2A34]), octets[:noise.randint(0, 9)])
