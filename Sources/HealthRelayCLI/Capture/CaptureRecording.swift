import Dispatch
import Foundation
import GatewaySettings
import HCICapture
import HealthReadings

/// Writes what the helper records into a file, until either ends. Runs on a thread of its own: it waits in the system.
struct CaptureRecording: Sendable {
    /// What was recorded.
    struct Summary: Sendable {
        var file: String
        var packets: UInt64 = 0
        var octets: UInt64 = 0
        var dropped: UInt64 = 0
        var startedAt: Instant
        var endedAt: Instant

        var document: JSONValue {
            .object([
                "file": .string(file), "packets": .integer(Int64(clamping: packets)),
                "octets": .integer(Int64(clamping: octets)), "dropped": .integer(Int64(clamping: dropped)),
                "started_at": .string(Self.second(startedAt)), "ended_at": .string(Self.second(endedAt)),
            ])
        }

        private static func second(_ instant: Instant) -> String { Instant(seconds: instant.seconds).description }

        var line: String {
            let seconds = endedAt.seconds - startedAt.seconds
            let clock = "\(seconds / 60):" + (seconds % 60 < 10 ? "0" : "") + "\(seconds % 60)"
            return "\(packets) packets, \(octets) octets, \(dropped) lost, \(clock)"
        }
    }

    /// What happens meanwhile.
    enum Progress: Sendable {
        /// The recording runs, on this adapter.
        case began(adapter: String)
        /// Something a person should know.
        case note(code: String, message: String)
        /// So much is recorded; said once a second.
        case recorded(Summary)
    }

    /// How often what was written is made durable, in seconds.
    private static let durability = 5.0

    var file: String
    var helper: String
    var arguments: [String]
    var tell: @Sendable (Progress) -> Void

    /// Records until a signal, or until the helper ends.
    /// - Returns: what is in the file, where there is one, and what went wrong, where something did.
    func run() async -> (summary: Summary?, problem: Problem?) {
        await withCheckedContinuation { continuation in
            Thread { continuation.resume(returning: record()) }.start()
        }
    }

    private func record() -> (summary: Summary?, problem: Problem?) {
        let process: CaptureHelperProcess
        do throws(Problem) {
            process = try CaptureHelperProcess(path: helper, arguments: arguments)
        } catch {
            return (nil, error)
        }
        let wasAsked = SharedFlag()
        let signals = Self.onSignals { [stop = process.stop] in
            // The second time, without waiting for the last record.
            stop(wasAsked.value)
            wasAsked.set()
        }
        defer { signals.forEach { $0.cancel() } }
        var summary: Summary?
        var problem: Problem?
        do throws(CaptureError) {
            try copy(process, &summary)
        } catch {
            problem = Self.problem(error)
            process.stop(true)
        }
        let ending = process.finish(wasAsked: wasAsked.value || problem != nil)
        summary?.endedAt = Instant.systemClock
        if let total = process.words.totals["dropped"] { summary?.dropped = total }
        return (summary, problem ?? ending)
    }

    /// Copies whole records into the file to the end of the helper's output.
    private func copy(_ process: CaptureHelperProcess, _ summary: inout Summary?) throws(CaptureError) {
        var stream = BTSnoopStream(named: helper)
        // The file is made when the recording has begun, so that nothing is left of one that could not.
        while !stream.hasBegun {
            let whole = try next(process, &stream)
            guard let whole else { return }
            guard stream.hasBegun else { continue }
            var written = try DurableCaptureFile(path: file)
            summary = Summary(file: file, startedAt: Instant.systemClock, endedAt: Instant.systemClock)
            defer { summary?.octets = written.octets }
            try written.write(whole)
            try copy(process, &stream, into: &written, &summary)
        }
    }

    private func copy(
        _ process: CaptureHelperProcess, _ stream: inout BTSnoopStream, into written: inout DurableCaptureFile,
        _ summary: inout Summary?
    ) throws(CaptureError) {
        var (lastTold, lastDurable) = (Self.seconds, Self.seconds)
        while true {
            summary?.packets = stream.packets
            summary?.octets = written.octets
            summary?.dropped = UInt64(stream.dropped)
            let now = Self.seconds
            if now - lastTold >= 1, var told = summary {
                told.endedAt = Instant.systemClock
                tell(.recorded(told))
                lastTold = now
            }
            if now - lastDurable >= Self.durability {
                try written.synchronize()
                lastDurable = now
            }
            guard let whole = try next(process, &stream) else { break }
            try written.write(whole)
        }
        try written.synchronize()
    }

    /// Waits up to a second for what comes next; nil at the end of the recording.
    private func next(
        _ process: CaptureHelperProcess, _ stream: inout BTSnoopStream
    ) throws(CaptureError) -> [UInt8]? {
        var waits = [process.descriptors.output, process.descriptors.errors].map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        guard poll(&waits, 2, 1000) > 0 else { return [] }
        if waits[1].revents & Int16(POLLIN) != 0 {
            _ = process.readErrors()
            for (code, message) in process.takeNotes() {
                tell(code == "adapter" ? .began(adapter: message) : .note(code: code, message: message))
            }
        }
        guard waits[0].revents != 0 else {
            // Standard error alone at its end would otherwise be woken for again and again.
            if waits[1].revents & Int16(POLLIN) == 0 { usleep(10_000) }
            return []
        }
        let octets = process.readOutput()
        return octets.isEmpty ? nil : try stream.take(octets)
    }

    private static var seconds: Double { Double(SystemClock.monotonic) / 1e6 }

    /// Answers the signals that end a command. Until the system knows of that they end the process itself: none is lost.
    private static func onSignals(_ body: @escaping @Sendable () -> Void) -> [any DispatchSourceSignal] {
        let registration = DispatchGroup()
        let sources = [SIGINT, SIGTERM, SIGHUP].map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler(handler: body)
            registration.enter()
            source.setRegistrationHandler { registration.leave() }
            source.resume()
            return source
        }
        registration.wait()
        return sources
    }

    private static func problem(_ error: CaptureError) -> Problem {
        switch error {
        case .cannotOpen(_, let code) where code == EEXIST:
            Problem("capture_exists", .cannotCreate, error.description, hint: "name another file, or remove this one")
        case .cannotOpen: Problem("capture_cannot_create", .cannotCreate, error.description)
        case .cannotWrite(_, let code) where [ENOSPC, EDQUOT, EFBIG].contains(code):
            Problem("disk_full", .inputOutput, error.description, hint: "what was recorded until then is in the file")
        case .cannotRead, .cannotWrite: Problem("capture_io", .inputOutput, error.description)
        case .damaged, .unsupported: Problem("capture_helper_failed", .protocolBroken, error.description)
        }
    }
}
