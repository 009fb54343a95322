import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore

/// Takes a backup of another gateway, piece by piece, into a gateway whose store is empty.
///
/// The pieces become one file in the state directory. Nothing is put back while this gateway runs: it ends, the store is
/// made of the file, and the gateway starts anew with it.
package actor RestoreDesk {
    /// The largest export that is taken.
    package static let mostOctets: Int64 = 1 << 30
    private static let reserve: Int64 = 64 << 20

    /// A backup that is whole and whose passphrase opens it.
    package struct Pending: Sendable {
        /// The file.
        package var path: String
        /// What it was sealed under. It is kept in memory alone.
        package var passphrase: String
    }

    /// How putting a backup back ended.
    package enum Outcome: Sendable {
        /// So many readings are there now.
        case done(readings: Int)
        /// Nothing was changed.
        case failed(Problem)
    }

    private let path: String
    private let store: ReadingStore
    /// How many bytes of the file are there, and how many it will have.
    private(set) package var received: Int64 = 0
    private var length: Int64 = 0
    /// What the gateway puts back once it has ended.
    private(set) package var pending: Pending?
    /// How the last one ended; `nil`: none was put back when this gateway started.
    private(set) package var outcome: Outcome?

    init(store: ReadingStore) {
        self.store = store
        path = store.directory + "/restore.part"
    }

    /// Starts with how the last one ended, and without what a gateway that was killed has left.
    package func begin(after outcome: Outcome?) {
        self.outcome = outcome
        unlink(path)
        try? ReadingStore.clearTrial(in: store.directory)
    }

    /// Whether there is nothing in the store that a backup would have to be weighed against.
    package func isPossible() async throws -> Bool {
        guard store.lockedBecause == nil else { return false }
        let statistics = try await store.statistics()
        guard statistics.frames == 0, statistics.readings.values.allSatisfy({ $0 == 0 }) else { return false }
        return try await !store.isAnythingToBeTakenBack()
    }

    /// Takes a piece. One that was taken before may come again, because its answer may have been lost.
    ///
    /// - Parameters:
    ///   - octets: the piece.
    ///   - offset: where it stands in the file; 0 begins anew.
    ///   - length: how many bytes the whole file has.
    /// - Returns: how many bytes of the file are there.
    /// - Throws: `Problem`, `ExportError`.
    package func take(_ octets: [UInt8], at offset: Int64, of length: Int64) async throws -> Int64 {
        guard try await isPossible() else { throw ExportError.storeNotEmpty(path: store.directory) }
        // Nothing is awaited from here on, so that two pieces never meet.
        guard pending == nil else {
            throw Problem("restore_running", .tryAgain, "a backup is being put back; this piece was not taken")
        }
        guard (1...Self.mostOctets).contains(length) else {
            throw Problem(
                "restore_too_large", .usage,
                "expected a backup of up to \(Self.mostOctets >> 20) MiB, found \(length) bytes",
                hint:
                    "put a larger one back on the gateway's machine: stop the gateway, then `healthrelay store import FILE`"
            )
        }
        guard offset == 0 || offset <= received && length == self.length, !octets.isEmpty,
            offset + Int64(octets.count) <= length
        else {
            throw Problem(
                "restore_out_of_step", .usage,
                "expected a piece at \(received) of \(self.length) bytes, found \(octets.count) bytes at \(offset) of \(length)",
                hint: "begin again at 0")
        }
        do throws(POSIXError) {
            if offset == 0 { try begin(octets, length) }
            try write(octets, at: offset)
        } catch {
            throw Self.problem(error, store.directory)
        }
        self.length = length
        received = offset + Int64(octets.count)
        return received
    }

    /// Checks that the passphrase opens the whole file, and keeps both for when the gateway has ended.
    ///
    /// - Throws: `Problem`, `ExportError`, `StoreError`; the file stays, so that another passphrase can be tried.
    package func prepare(_ passphrase: String) async throws {
        guard try await isPossible() else { throw ExportError.storeNotEmpty(path: store.directory) }
        guard pending == nil else {
            throw Problem("restore_running", .tryAgain, "a backup is being put back")
        }
        guard length > 0, received == length else {
            throw Problem(
                "restore_incomplete", .usage, "\(received) of \(length) bytes of the backup are there",
                hint: "send the rest of it first")
        }
        // Two at once would both take scrypt's memory.
        let pending = Pending(path: path, passphrase: passphrase)
        self.pending = pending
        do {
            // The whole file is decrypted: this takes seconds, and no other task may wait for the actor's thread.
            _ = try await Task.detached { try ReadingStore.checkExport(at: pending.path, passphrase: passphrase) }.value
        } catch {
            self.pending = nil
            throw error
        }
    }

    /// Forgets what was prepared: the gateway cannot start anew.
    package func giveUp() { pending = nil }

    private func begin(_ octets: [UInt8], _ length: Int64) throws(POSIXError) {
        received = 0
        unlink(path)
        // The file; and the store that is made of it, with a copy and its log while its rows are sealed anew.
        if let space = DiskSpace(at: store.directory), space.free < 4 * length + Self.reserve {
            throw POSIXError(.ENOSPC)
        }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure() }
        close(descriptor)
    }

    private func write(_ octets: [UInt8], at offset: Int64) throws(POSIXError) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw Self.failure() }
        defer { close(descriptor) }
        var (rest, place) = (octets[...], offset)
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(place)) }
            guard count >= 0 || errno == EINTR else { throw Self.failure() }
            rest = rest.dropFirst(max(count, 0))
            place += Int64(max(count, 0))
        }
    }

    private static func failure() -> POSIXError { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }

    private static func problem(_ error: POSIXError, _ directory: String) -> Problem {
        let isFull = [.ENOSPC, .EDQUOT].contains(error.code)
        return Problem(
            isFull ? "disk_full" : "restore_io", .inputOutput,
            "cannot keep the backup in \(directory): \(String(cString: strerror(error.code.rawValue)))",
            hint: isFull ? "a restore needs four times the backup's size for a while" : nil)
    }
}
