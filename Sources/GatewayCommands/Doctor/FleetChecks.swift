import FleetDelivery
import Foundation
import GatewaySettings
import HealthReadings
import SwiftASN1
import X509

extension Doctor {
    /// How the certificates stand with which this gateway proves itself to fleets: one check for each of them.
    func fleetChecks() async -> [DoctorCheck] {
        let now = await clock.judgingTime()
        return settings.destinations.filter { $0.kind == .fleet }.flatMap { setting in
            let folder = EnrolmentFolder(state: stateDirectory, destination: setting.name)
            let own = setting["certificate_file"].map { Self.certificateCheck($0, of: setting.name, at: now) }
            return [
                own ?? Self.enrolmentCheck(folder, of: setting.name, at: now),
                setting["ca_file"].map { Self.authorityCheck($0, of: setting.name, at: now) },
            ].compactMap(\.self)
        }
    }

    /// The certificate of an enrolment; `nil`: the gateway hasn't enrolled.
    static func enrolmentCheck(_ folder: EnrolmentFolder, of destination: String, at now: Instant) -> DoctorCheck? {
        let recordFile = folder.path + "/" + EnrolmentFolder.recordFile
        guard FileManager.default.fileExists(atPath: recordFile) else { return nil }
        let again = "ask the fleet's operator for a token, and enrol again: `healthrelay fleet enrol --token-file FILE`"
        guard let record = folder.record else {
            return .bad(name, .badData, "\(destination): \(recordFile) can't be read", mend: again)
        }
        let (files, found) = (
            folder.files(of: record.current), "\(destination): the certificate of \(record.gateway) "
        )
        for path in [files.certificate, files.privateKey, files.authorities]
        where PrivateFile.read(path, upTo: 1 << 20) == nil {
            return .bad(name, .noInput, "\(destination): cannot read \(path)", mend: again)
        }
        switch record.state(at: now) {
        case .expired: return .bad(name, .configuration, found + "ended at \(record.current.until)", mend: again)
        case .notYetValid:
            return .bad(
                name, .configuration,
                found + "begins at \(record.current.from), and this machine's clock says \(now.flooredToSecond)",
                mend: "set the clock")
        case .valid, .due: break
        }
        if let refusal = record.refusal {
            return .bad(
                name, .tryAgain, found + "is refused, and the one before is used: \(refusal.message)",
                mend: "ask the fleet's operator whether this gateway was revoked")
        }
        if let renewal = record.renewal, let retry = record.retriesAt {
            return .bad(
                name, .tryAgain,
                found + "ends at \(record.current.until) and could not be renewed: \(renewal.message)",
                mend: "check that \(record.url) can be reached; it is tried again at "
                    + "\(max(now, retry).flooredToSecond)")
        }
        // The service renews it a day or two after two thirds of its life at the latest.
        let late = record.current.renewsAt.advanced(bySeconds: 2 * 86_400)
        if now > late {
            return .bad(
                name, .tryAgain, found + "ends at \(record.current.until) and was not renewed",
                mend: "start the service, which renews it: `healthrelay run`")
        }
        return .good(name, found + "is good until \(record.current.until)")
    }

    /// A certificate of the owner's own, which nobody renews.
    static func certificateCheck(_ path: String, of destination: String, at now: Instant) -> DoctorCheck {
        // Its chain may stand behind it.
        check(path, of: destination, at: now, what: "the certificate", mend: "put a new certificate and its key there")
        {
            $0.first
        }
    }

    /// The authorities that brokers or collectors are checked by; of several the one that lasts longest counts.
    static func authorityCheck(_ path: String, of destination: String, at now: Instant) -> DoctorCheck {
        check(
            path, of: destination, at: now, what: "the authority",
            mend: "ask the fleet's operator for the file of the authority"
        ) { $0.max { $0.notValidAfter < $1.notValidAfter } }
    }

    private static func check(
        _ path: String, of destination: String, at now: Instant, what: String, mend: String,
        choosing choose: ([Certificate]) -> Certificate?
    ) -> DoctorCheck {
        guard let octets = PrivateFile.read(path, upTo: 1 << 20) else {
            return .bad(name, .configuration, "\(destination): cannot read \(path)", mend: mend)
        }
        let documents = (try? PEMDocument.parseMultiple(pemString: String(decoding: octets, as: UTF8.self))) ?? []
        guard let chosen = choose(documents.compactMap { try? Certificate(pemDocument: $0) }) else {
            return .bad(name, .configuration, "\(destination): \(path) holds no certificate in PEM", mend: mend)
        }
        let (from, until) = (chosen.notValidBefore.instant, chosen.notValidAfter.instant)
        let found = "\(destination): \(what) in \(path) "
        if now >= until { return .bad(name, .configuration, found + "ended at \(until)", mend: mend) }
        if now < from {
            return .bad(
                name, .configuration,
                found + "begins at \(from), and this machine's clock says \(now.flooredToSecond)",
                mend: "set the clock")
        }
        let soon = min(30 * 86_400, (until.seconds - from.seconds) / 3)
        if until.seconds - now.seconds <= soon {
            return .bad(name, .tryAgain, found + "ends soon, at \(until)", mend: mend)
        }
        return .good(name, found + "is good until \(until)")
    }

    private static var name: String { "fleet_certificate" }
}
