import Foundation
import HealthReadings
import ReadingStore

/// Appends every reading to a file, one JSON document a line: `{"id", "person", "reading"}`, and
/// `{"id", "person", "retracted": true}` for one that is taken back.
///
/// A reading counts as delivered when its line is durable (`fsync`). A reading that is sent again is appended only if it
/// has changed, so that the last line of an id counts. A line that a crash or a full disk cut short is taken back.
///
/// The file may be moved away, cut or replaced at any time: each delivery looks whether it is still the one that it knows,
/// and opens it anew if not. A file that begins or ends with other lines than these is another program's, and stays as it is.
///
/// The file may grow for years: of its lines only the newest are remembered. It is read from its beginning for a reading
/// that had been received before they came, as after a crash or when it is redelivered.
public actor JSONLinesDestination: Destination {
    /// Its name in the settings.
    public nonisolated let name: String
    /// `file`.
    public nonisolated let kind = "file"
    /// What a file can express.
    public nonisolated var rules: DestinationRules { JSONLinesDestination.rules }

    /// What a file can express.
    public static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false,
        canRetract: true)

    private let path: String
    private var file: Int32?
    /// The file as it was after the last line.
    private var identity: FileIdentity?
    /// What is known of its lines; each opening begins anew.
    private var lines = LastLines(since: .systemClock)
    /// Whether the lines of the whole file are known at present.
    var knowsAll: Bool { lines.all != nil }

    /// Creates a destination; the file is opened with the first delivery.
    public init(name: String, path: String) {
        self.name = name
        self.path = path
    }

    deinit { if let file { close(file) } }

    /// Appends a line for each reading whose last line differs, and synchronises the file.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let file = try opened()
        try know(part.items.contains { !lines.covers($0.reading.receivedAt) }, of: file)
        var (text, appended): (String, [ReadingID: Int]) = ("", [:])
        for item in part.items {
            var reading = item.reading
            // How it stands with destinations is not part of it, and differs each time.
            reading.deliveries = []
            let line = JSONValue.object([
                "id": .string(reading.id.description), "person": .string(part.person.clientUserID),
                "reading": reading.document,
            ]).text
            let hash = LastLines.hash(line)
            guard (appended[reading.id] ?? lines[reading.id]) != hash else { continue }
            appended[reading.id] = hash
            text += line + "\n"
        }
        CrashPoint.reach("jsonl.before")
        try append(text, to: file)
        CrashPoint.reach("jsonl.after")
        lines.note(appended)
        return part.items.map { Outcome($0.id, .delivered) }
    }

    /// Appends a line for each reading that the file has, or had before it was moved or cut, and that no such line follows:
    /// whoever has the former file learns of it.
    public func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        let file = try opened()
        // Most were written long ago; and whether one was taken back already, before a crash, the file alone tells.
        try know(items.contains { lines[$0.reading] == nil }, of: file)
        var (text, appended): (String, [ReadingID: Int]) = ("", [:])
        for item in items {
            let line = JSONValue.object([
                "id": .string(item.reading.description), "person": .string(item.person), "retracted": .bool(true),
            ]).text
            let hash = LastLines.hash(line)
            let last = appended[item.reading] ?? lines[item.reading]
            guard last == nil ? item.wasDelivered : last != hash else { continue }
            appended[item.reading] = hash
            text += line + "\n"
        }
        CrashPoint.reach("jsonl.before")
        try append(text, to: file)
        CrashPoint.reach("jsonl.after")
        lines.note(appended)
        return Dictionary(items.map { ($0.key, .delivered) }) { first, _ in first }
    }

    /// Looks whether the file, or the folder of one that is still to be made, can be written. Nothing is opened or made.
    public func test() async -> [Finding] {
        guard FileKind(at: path).isAbsentOrRegular else {
            return [
                Finding("permission", isGood: false, found: "\(path) is no ordinary file", mend: "name another path")
            ]
        }
        let isThere = access(path, F_OK) == 0
        let place = isThere ? path : URL(fileURLWithPath: path).deletingLastPathComponent().path
        guard access(place, isThere ? W_OK | R_OK : W_OK | X_OK) == 0 else {
            return [
                Finding(
                    "permission", isGood: false, found: "cannot write \(place): \(String(cString: strerror(errno)))",
                    mend: "let the gateway's user write there; a service writes to its state directory only")
            ]
        }
        let file = isThere ? open(path, O_RDONLY | O_CLOEXEC) : -1
        defer { if file >= 0 { close(file) } }
        if file >= 0, let lines = LineFile(file), lines.isForeign {
            return [
                Finding(
                    "permission", isGood: false, found: foreign.message,
                    mend: "name another path, or move the file away")
            ]
        }
        return [
            Finding("permission", isGood: true, found: isThere ? "the file can be written" : "the file can be made")
        ]
    }

    private func append(_ text: String, to file: Int32) throws(DeliveryFailure) {
        let end = lseek(file, 0, SEEK_END)
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
            guard count > 0 else {
                guard count < 0, errno == EINTR else { throw failure(takingBackFrom: end, of: file) }
                continue
            }
            rest = rest.dropFirst(count)
        }
        guard fsync(file) == 0 else { throw failure(takingBackFrom: end, of: file) }
        identity = FileIdentity(of: file)
        guard identity != nil, identity == FileIdentity(at: path) else {
            forget()
            throw DeliveryFailure(
                .destination, code: "store_io", message: "\(path) was moved or changed while it was written")
        }
    }

    /// Lets go of the file, which is opened and read anew with the next delivery.
    private func forget() {
        if let file { close(file) }
        (file, identity) = (nil, nil)
    }

    private func failure(takingBackFrom end: off_t, of file: Int32) -> DeliveryFailure {
        let failure = failure()
        // What became of the end of the file is read anew.
        _ = ftruncate(file, end)
        forget()
        return failure
    }

    private func failure() -> DeliveryFailure {
        let (number, words) = (errno, String(cString: strerror(errno)))
        return DeliveryFailure(
            .destination, code: number == ENOSPC ? "disk_full" : "store_io", message: "cannot write \(path): \(words)")
    }

    /// The file, with a last line that is not whole taken back.
    private func opened() throws(DeliveryFailure) -> Int32 {
        if let file, let identity, identity == FileIdentity(at: path) { return file }
        forget()
        guard FileKind(at: path).isAbsentOrRegular else {
            throw DeliveryFailure(.destination, code: "store_io", message: "\(path) is no ordinary file")
        }
        let file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw failure() }
        let folder = open(
            URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if folder >= 0 { close(folder) } }
        let (end, since): (Int?, Instant)
        do {
            guard folder >= 0, fsync(folder) == 0, let lines = LineFile(file) else { throw LineFile.Unreadable() }
            (end, since) = (try lines.end(), lines.unchangedSince)
        } catch {
            defer { close(file) }
            throw failure()
        }
        guard let end else {
            close(file)
            throw foreign
        }
        // Lines that are taken for delivered have to be durable.
        guard ftruncate(file, off_t(end)) == 0, fsync(file) == 0 else {
            defer { close(file) }
            throw failure()
        }
        // Of a reading that was received since it was written to, there is no line.
        lines = LastLines(since: end == 0 ? Instant(microseconds: .min) : since)
        (self.file, identity) = (file, FileIdentity(of: file))
        return file
    }

    /// Reads what the last line of every id is, if that is needed and not known.
    private func know(_ isNeeded: Bool, of file: Int32) throws(DeliveryFailure) {
        guard lines.wantsAll(isNeeded) else { return }
        guard let content = LineFile(file) else { throw failure() }
        var all: [UInt64: Int] = [:]
        do { try content.forEach { LastLines.note($0, in: &all) } } catch { throw failure() }
        lines.all = all
    }

    private var foreign: DeliveryFailure {
        DeliveryFailure(
            .destination, code: "store_io",
            message: #"\#(path) holds something else: expected lines that begin with {"id":", so nothing is written"#)
    }
}
