import Glibc
import ISO15693Reader
import Synchronization

/// The thread behind an emulated reader's port: it alone reads, writes and closes the terminal.
final class SerialLine: Sendable {
    struct State {
        var behaviour: EmulatedReader.Behaviour
        var exchanges = 0
        var frames: [[UInt8]] = []
        /// What the thread shall have as its terminal from now on.
        var next: PseudoTerminal??
    }

    let state: Mutex<State>
    private let bell: (read: Int32, write: Int32)
    /// The link to the terminal: it is gone while there is none, for another may soon have the terminal's number.
    private let link: String

    init(_ behaviour: EmulatedReader.Behaviour, link: String) throws(EmulatedReader.Failure) {
        var pair: [Int32] = [-1, -1]
        guard pipe(&pair) == 0 else { throw EmulatedReader.Failure(what: "no pipe") }
        for descriptor in pair { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        bell = (pair[0], pair[1])
        self.link = link
        state = Mutex(State(behaviour: behaviour))
        var thread = pthread_t()
        let context = Unmanaged.passRetained(self)
        let status = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<SerialLine>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, context.toOpaque())
        guard status == 0 else {
            context.release()
            throw EmulatedReader.Failure(what: "no thread")
        }
        pthread_detach(thread)
    }

    /// Gives the thread another terminal, or none; before it reads what was written after this.
    /// - Returns: whether the link could be made.
    func plug(_ terminal: PseudoTerminal?) -> Bool {
        unlink(link)
        state.withLock { state in
            if case .some(.some(let unused)) = state.next { unused.close() }
            state.next = .some(terminal)
        }
        var octet: UInt8 = 0
        write(bell.write, &octet, 1)
        return terminal.map { symlink($0.name, link) == 0 } ?? true
    }

    /// Ends the thread.
    func end() { close(bell.write) }

    private func run() {
        var terminal: PseudoTerminal?
        var chip = PN532()
        var octets: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 4096)
        while true {
            var waits = [
                pollfd(fd: bell.read, events: Int16(POLLIN), revents: 0),
                pollfd(fd: terminal?.master ?? -1, events: Int16(POLLIN), revents: 0),
            ]
            poll(&waits, 2, -1)
            if waits[0].revents != 0 {
                guard read(bell.read, &room, room.count) > 0 else { break }
                if let next = state.withLock({ state in
                    defer { state.next = nil }
                    return state.next
                }) {
                    terminal?.close()
                    (terminal, chip, octets) = (next, PN532(), [])
                }
                continue
            }
            guard waits[1].revents != 0, let master = terminal?.master else { continue }
            let count = read(master, &room, room.count)
            guard count > 0 else {
                usleep(1000)
                continue
            }
            octets += room.prefix(count)
            while let command = PN532Frame.nextCommand(&octets) {
                guard answer(command, &chip, master) else {
                    unlink(link)
                    terminal?.close()
                    (terminal, octets) = (nil, [])
                    break
                }
            }
        }
        terminal?.close()
        close(bell.read)
    }

    /// False where the reader vanishes over it.
    private func answer(_ command: [UInt8], _ chip: inout PN532, _ master: Int32) -> Bool {
        let isExchange = command[0] == 0x42
        let (now, number) = state.withLock { state in
            if isExchange {
                state.exchanges += 1
                if let frame = chip.frame(of: command) { state.frames.append(frame) }
            }
            return (state.behaviour, state.exchanges)
        }
        guard now.acknowledges else { return true }
        if isExchange, number == now.vanishesAt { return false }
        // Acknowledgement and answer of a quick reader come in one piece.
        let isSlow = isExchange && (now.delay > 0 || now.hangingExchanges.contains(number))
        if isSlow { send(PN532Frame.acknowledgement, master) }
        if isExchange, now.hangingExchanges.contains(number) { return true }
        if isExchange, now.delay > 0 { usleep(now.delay * 1000) }
        let data = state.withLock { chip.answer(to: command, &$0.behaviour) }
        let isGarbled = isExchange && now.garbledExchanges.contains(number)
        let answer = data.map { PN532Frame.answer(command[0] &+ 1, $0, isGarbled: isGarbled) } ?? PN532Frame.error
        send((isSlow ? [] : PN532Frame.acknowledgement) + answer, master)
        return true
    }

    private func send(_ octets: [UInt8], _ master: Int32) { _ = write(master, octets, octets.count) }
}
