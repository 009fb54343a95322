import GatewaySettings
import ISO15693Reader

extension Doctor {
    /// The NFC reader that the settings name.
    func readerCheck() async -> DoctorCheck {
        guard let name = settings["nfc.reader"] else { return .good("reader", "no NFC reader configured") }
        do {
            _ = try NFCReaders().reader(name)
        } catch {
            return .bad("reader", Problem(error))
        }
        guard let found = await NFCReaders().list(configured: name).first else {
            return .bad("reader", Problem(ISO15693Error.noReader(name)))
        }
        if let code = found.code, found.iso15693 != true, code != "port_in_use" {
            let problem = Problem(
                code, .unavailable, "\(name): \(found.reason ?? code)", hint: "see `healthrelay nfc readers`")
            return .bad("reader", problem)
        }
        let words = [found.name ?? name, found.reason].compactMap(\.self).joined(separator: ": ")
        return .good("reader", found.iso15693 == true ? "\(words) reads ISO 15693" : words)
    }
}
