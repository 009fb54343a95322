import CBluetooth
import Glibc
import HCIMonitor

/// The kernel's HCI monitor: a socket on which it gives a copy of every packet between host and controllers.
struct MonitorChannel: ~Copyable {
    /// What it gives.
    let selection: MonitorSelection
    private let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: MonitorMessage.mostOctets + 1)

    /// What came.
    enum Reception {
        /// A message, and when the kernel saw it, in microseconds since the POSIX epoch.
        case message(MonitorMessage, Int64)
        /// A datagram that is no message.
        case malformed
        /// No more for now.
        case nothing
        /// There will be no more.
        case end
    }

    /// The descriptor to wait for.
    var pollDescriptor: Int32 { descriptor }

    /// How many messages the kernel has dropped because this program was slow.
    var lost: UInt32 { cbluetooth_drops(descriptor) }

    private init(_ descriptor: Int32, _ selection: MonitorSelection) {
        (self.descriptor, self.selection) = (descriptor, selection)
    }

    deinit { close(descriptor) }

    /// Opens the channel of one adapter.
    static func open(_ options: CaptureOptions) throws(CaptureFailure) -> MonitorChannel {
        if let path = options.socketPath { return try connect(path, options) }
        let descriptor = try socket(AF_BLUETOOTH, SOCK_RAW, Int32(BTPROTO_HCI))
        let index = try adapterIndex(options.adapter)
        let selection = MonitorSelection(
            adapter: index, peer: options.device,
            peerHandles: options.device.map { connections(with: $0, on: index) } ?? [], keepsKeys: options.keepsKeys)
        let channel = MonitorChannel(descriptor, selection)
        // Before the channel is bound, so that nothing of others is ever in it.
        try channel.prepare()
        var address = sockaddr_hci(
            hci_family: sa_family_t(AF_BLUETOOTH), hci_dev: UInt16(HCI_DEV_NONE),
            hci_channel: UInt16(HCI_CHANNEL_MONITOR))
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                bind(channel.descriptor, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_hci>.size))
            }
        }
        guard result == 0 else {
            if errno == EPERM || errno == EACCES {
                throw CaptureFailure(
                    code: "capture_not_permitted", message: "the HCI monitor needs the capability CAP_NET_RAW",
                    status: 77)
            }
            throw .system("the HCI monitor")
        }
        return channel
    }

    /// Takes the next message, without waiting.
    mutating func receive() throws(CaptureFailure) -> Reception {
        while true {
            var microseconds: Int64 = -1
            let descriptor = descriptor
            let count = buffer.withUnsafeMutableBytes {
                cbluetooth_receive(descriptor, $0.baseAddress, $0.count, &microseconds)
            }
            if count == 0 { return .end }
            if count < 0 {
                switch errno {
                case EINTR: continue
                case EAGAIN: return .nothing
                case ECONNRESET: return .end
                default: throw .system("the HCI monitor")
                }
            }
            guard let message = try? MonitorMessage(decoding: buffer, count: count) else { return .malformed }
            return .message(message, microseconds >= 0 ? microseconds : Self.now)
        }
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }

    // MARK: opening

    private static func socket(
        _ family: Int32, _ type: __socket_type, _ protocolNumber: Int32
    ) throws(CaptureFailure) -> Int32 {
        let flags = SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = Glibc.socket(family, Int32(type.rawValue | flags), protocolNumber)
        if descriptor >= 0 { return descriptor }
        switch errno {
        case EAFNOSUPPORT, EPROTONOSUPPORT:
            throw CaptureFailure(
                code: "no_bluetooth",
                message: "this kernel has no Bluetooth, or hides it from this container's network", status: 69)
        case EPERM, EACCES:
            throw CaptureFailure(
                code: "capture_not_permitted", message: "the system forbids Bluetooth sockets here", status: 77)
        default: throw .system("a Bluetooth socket")
        }
    }

    /// Asks for times, room, and one adapter's messages alone.
    private borrowing func prepare() throws(CaptureFailure) {
        var (yes, room): (Int32, Int32) = (1, 4 * 1024 * 1024)
        let size = socklen_t(MemoryLayout<Int32>.size)
        guard setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMP, &yes, size) == 0 else {
            throw .system("times of packets")
        }
        // The kernel gives less where its own bound is lower; what is lost then is counted.
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, size)
        var program = Self.filter(selection)
        let result = program.withUnsafeMutableBufferPointer { instructions in
            var whole = sock_fprog(len: UInt16(instructions.count), filter: instructions.baseAddress)
            return setsockopt(
                descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &whole, socklen_t(MemoryLayout<sock_fprog>.size))
        }
        guard result == 0 else { throw .system("the filter of packets") }
    }

    /// A classic BPF program that passes what a selection is about: other adapters' packets, and management traffic with
    /// its keys, never reach this program. It loads big endian, and the monitor's messages are little endian.
    private static func filter(_ selection: MonitorSelection) -> [sock_filter] {
        func load(_ place: UInt32) -> sock_filter {
            sock_filter(code: UInt16(BPF_LD | BPF_H | BPF_ABS), jt: 0, jf: 0, k: place)
        }
        /// Where the loaded number is this one, goes on there, else elsewhere: so many instructions further.
        func compare(_ number: UInt16, then: Int, else otherwise: Int) -> sock_filter {
            sock_filter(
                code: UInt16(BPF_JMP | BPF_JEQ | BPF_K), jt: UInt8(then), jf: UInt8(otherwise),
                k: UInt32(number.byteSwapped))
        }
        func give(_ octets: UInt32) -> sock_filter {
            sock_filter(code: UInt16(BPF_RET | BPF_K), jt: 0, jf: 0, k: octets)
        }
        let opcodes = MonitorOpcode.recorded
        let identity =
            selection.peer == nil
            ? []
            : [
                compare(MonitorOpcode.managementEvent.rawValue, then: 0, else: 2),
                load(UInt32(MonitorMessage.headLength) + 4), compare(PeerFilter.identityEvent, then: 1, else: 0),
            ]
        let toRefusal = opcodes.count + identity.count
        var program = [load(2), compare(selection.adapter, then: 0, else: toRefusal + 1), load(0)]
        for (place, opcode) in opcodes.enumerated() {
            program.append(compare(opcode.rawValue, then: toRefusal - place, else: 0))
        }
        return program + identity + [give(0), give(.max)]
    }

    // MARK: adapters

    private static func adapterIndex(_ adapter: CaptureOptions.Adapter?) throws(CaptureFailure) -> UInt16 {
        var information = hci_dev_info()
        switch adapter {
        case nil:
            if let index = UInt16(exactly: hci_get_route(nil)) { return index }
            for index in 0..<Int32(HCI_MAX_DEV) where hci_devinfo(index, &information) == 0 { return UInt16(index) }
        case .index(let index): if hci_devinfo(Int32(index), &information) == 0 { return index }
        case .address(let address): if let index = UInt16(exactly: hci_devid(address)) { return index }
        }
        throw .noAdapter(adapter?.name)
    }

    /// The handles of a device's connections that exist already.
    private static func connections(with device: PeerAddress, on adapter: UInt16) -> [UInt16] {
        var found = [hci_conn_info](repeating: hci_conn_info(), count: 64)
        let count = cbluetooth_connections(adapter, &found, UInt16(found.count))
        return found.prefix(max(0, Int(count))).filter { connection in
            let octets = withUnsafeBytes(of: connection.bdaddr) { Array($0) }
            return octets.reversed().reduce(0) { $0 << 8 | UInt64($1) } == device.bits
        }.map(\.handle)
    }

    // MARK: tests

    private static func connect(_ path: String, _ options: CaptureOptions) throws(CaptureFailure) -> MonitorChannel {
        var index: UInt16 = 0
        if case .index(let named) = options.adapter { index = named }
        let selection = MonitorSelection(adapter: index, peer: options.device, keepsKeys: options.keepsKeys)
        let channel = MonitorChannel(try socket(AF_UNIX, SOCK_SEQPACKET, 0), selection)
        try channel.prepare()
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let octets = Array(path.utf8)
        guard octets.count < MemoryLayout.size(ofValue: address.sun_path) else { throw .usage("the path is too long") }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: octets) }
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                Glibc.connect(channel.descriptor, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else { throw .system(path) }
        return channel
    }
}
