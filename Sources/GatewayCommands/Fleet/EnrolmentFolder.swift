import Crypto
import FleetDelivery
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import Synchronization

/// The files of a destination's enrolment, in the state directory: `enrolment/NAME/`.
///
/// Each certificate has a folder with its key and the authorities. The record names the folder in use and is replaced as a
/// whole, so that a process that is killed leaves the old certificate or the new one, each with its own key.
struct EnrolmentFolder: Sendable {
    static let recordFile = "record.json"
    private static let lock = Mutex(())

    let path: String

    /// The folder of a destination, whether it is there or not.
    init(state: String, destination: String) { path = state + "/enrolment/" + destination }

    /// The destinations that have one.
    static func destinations(in state: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: state + "/enrolment")) ?? []
        return names.filter { EnrolmentFolder(state: state, destination: $0).record != nil }.sorted()
    }

    // MARK: The record

    /// What is remembered; `nil`: the gateway hasn't enrolled.
    var record: EnrolmentRecord? {
        PrivateFile.read(path + "/" + Self.recordFile, upTo: EnrolmentRecord.mostBytes).flatMap {
            EnrolmentRecord($0)
        }
    }

    /// Changes the record, unless the change leaves it as it is. Others wait meanwhile.
    func change(_ body: (inout EnrolmentRecord) -> Void) throws(Problem) {
        let failure: PrivateFile.Failure? = Self.lock.withLock { _ -> PrivateFile.Failure? in
            guard var record else { return nil }
            let before = record
            body(&record)
            guard record != before else { return nil }
            do throws(PrivateFile.Failure) { try write(record) } catch { return error }
            // The record no longer names them.
            let former: [EnrolmentRecord.Generation?] = [before.current, before.previous]
            for case let old? in former where old != record.current && old != record.previous { remove(old) }
            return nil
        }
        if let failure { throw Self.problem(failure) }
    }

    private func write(_ record: EnrolmentRecord) throws(PrivateFile.Failure) {
        try PrivateFile.write(Array(record.document.text.utf8), to: path + "/" + Self.recordFile)
    }

    // MARK: Keys

    /// The key of an enrolment or a renewal that is under way, made if there is none: if the answer is lost, the same key
    /// asks again.
    func pendingKey(_ name: String) throws(Problem) -> P256.Signing.PrivateKey {
        let file = path + "/" + name
        if let octets = PrivateFile.read(file, upTo: 4096),
            let key = try? P256.Signing.PrivateKey(pemRepresentation: String(decoding: octets, as: UTF8.self))
        {
            return key
        }
        let key = P256.Signing.PrivateKey()
        do {
            try makeFolder()
            try PrivateFile.write(Array((key.pemRepresentation + "\n").utf8), to: file)
        } catch let error as PrivateFile.Failure {
            throw Self.problem(error)
        } catch {
            throw Problem("enrolment_cannot_create", .cannotCreate, "cannot make \(path)")
        }
        return key
    }

    /// Forgets the key of an enrolment or a renewal that is under way.
    func dropPendingKey(_ name: String) { unlink(path + "/" + name) }

    private func makeFolder() throws {
        for folder in [parentDirectory(of: path), path] where mkdir(folder, 0o700) != 0 && errno != EEXIST {
            throw Problem(
                "enrolment_cannot_create", .cannotCreate, "cannot make \(folder): \(String(cString: strerror(errno)))")
        }
    }

    // MARK: Certificates

    /// Puts a certificate in place of the present one, which is kept while it may still be needed.
    ///
    /// - Parameter keyFile: the file of ``pendingKey(_:)``, which goes.
    func install(
        _ fresh: EnrolmentRecord, _ answer: EnrolmentAnswer, key: P256.Signing.PrivateKey, keyFile: String,
        at now: Instant
    ) throws(Problem) {
        let failure: PrivateFile.Failure? = Self.lock.withLock { _ -> PrivateFile.Failure? in
            do throws(PrivateFile.Failure) {
                let folder = path + "/" + fresh.current.serial
                let files = [
                    ("private.key", key.pemRepresentation + "\n"), ("certificate.pem", answer.certificate),
                    ("ca.pem", answer.authorities),
                ]
                for (name, text) in files {
                    try PrivateFile.write(Array(text.utf8), to: folder + "/" + name)
                }
                var fresh = fresh
                let before = record
                if let before, before.gateway == fresh.gateway, before.current.serial != fresh.current.serial {
                    // One that no host has refused is worth more than one that is still to be proven.
                    let kept = before.refusal == nil ? before.current : before.previous ?? before.current
                    fresh.previous = kept.until > now ? kept : nil
                }
                try write(fresh)
                _ = try? PrivateFile.remove(path + "/" + keyFile)
                for old in [before?.current, before?.previous] {
                    if let old, old.serial != fresh.current.serial, old != fresh.previous { remove(old) }
                }
                return nil
            } catch { return error }
        }
        if let failure { throw Self.problem(failure) }
    }

    private func remove(_ generation: EnrolmentRecord.Generation) {
        try? FileManager.default.removeItem(atPath: path + "/" + generation.serial)
    }

    /// The files of a certificate.
    func files(of generation: EnrolmentRecord.Generation) -> FleetIdentity.Files {
        let folder = path + "/" + generation.serial
        return FleetIdentity.Files(
            authorities: folder + "/ca.pem", certificate: folder + "/certificate.pem",
            privateKey: folder + "/private.key")
    }

    private static func problem(_ failure: PrivateFile.Failure) -> Problem {
        Problem("enrolment_cannot_create", .cannotCreate, "cannot write \(failure.path): \(failure.reason)")
    }
}

/// The certificates of an enrolment, for a destination that connects.
struct EnrolledCredentials: FleetCredentials {
    let folder: EnrolmentFolder
    let now: @Sendable () -> Instant

    init(_ folder: EnrolmentFolder, now: @escaping @Sendable () -> Instant = { .systemClock }) {
        self.folder = folder
        self.now = now
    }

    func identities() -> [FleetIdentity] {
        guard let record = folder.record, let gateway = GatewayID(ifValid: record.gateway) else { return [] }
        return ([record.current] + (record.previous.map { [$0] } ?? [])).map {
            FleetIdentity(gateway: gateway, files: folder.files(of: $0))
        }
    }

    func accepted(_ identity: FleetIdentity) {
        try? folder.change { record in
            guard folder.files(of: record.current) == identity.files else { return }
            (record.previous, record.refusal) = (nil, nil)
        }
    }

    func refused(_ identity: FleetIdentity, because words: String) {
        let moment = now()
        try? folder.change { record in
            guard folder.files(of: record.current) == identity.files, record.previous != nil,
                record.refusal?.message != words
            else { return }
            record.refusal = .init(code: "certificate_refused", message: words, at: moment, count: 1)
        }
    }

    var problem: String? { folder.record?.problem(at: now()) }
}
