import NFCPipe

/// The NFC readers of this machine, by the setting `nfc.reader`.
public struct NFCReaders: Sendable {
    /// Where `healthrelay-nfc` is; nil where it is to be looked for beside this program.
    private let helper: String?
    private let answerTime: Duration

    /// - Parameters:
    ///   - helper: where `healthrelay-nfc` is; looked for beside this program, in its libexec folder and in PATH where
    ///     nil.
    ///   - answerTime: how long a reader behind libnfc may take over one answer.
    public init(helper: String? = nil, answerTime: Duration = .seconds(1)) {
        (self.helper, self.answerTime) = (helper, answerTime)
    }

    /// The reader that a setting names. Nothing is opened yet.
    ///
    /// `pcsc:` is whichever PC/SC reader has a tag, `pcsc:NAME` one by its name or the beginning of it; anything else
    /// is a name of libnfc's: `pn532_uart:/dev/ttyACM0:115200`.
    /// - Throws: ``ISO15693Error/badReaderName(_:)``.
    public func reader(_ setting: String) throws(ISO15693Error) -> any TagReader {
        switch try Self.parse(setting) {
        case .pcsc(let name): PCSCTransport(reader: name)
        case .libnfc(let reader): LibNFCTransport(reader, program: helper, answerTime: answerTime)
        }
    }

    private enum Setting {
        case pcsc(String?)
        case libnfc(LibNFCReader)
    }

    private static func parse(_ setting: String) throws(ISO15693Error) -> Setting {
        if setting.hasPrefix("pcsc:") {
            let name = setting.dropFirst("pcsc:".count)
            return .pcsc(name.isEmpty ? nil : String(name))
        }
        guard !setting.contains(where: { $0.isNewline || $0 == "\t" || $0 == "\0" }), setting.utf8.count < 1000,
            let reader = LibNFCReader(setting), reader.driver != "pcsc"
        else { throw .badReaderName(setting) }
        return .libnfc(reader)
    }

    // MARK: Listing

    /// A reader, and what it can do.
    public struct Listing: Sendable, Hashable {
        /// The setting that names it.
        public var reader: String
        /// What it is reached through.
        public var transport: Transport
        /// Its own name, where it has told one.
        public var name: String?
        /// Whether it reads ISO 15693; nil where that cannot be known now, and why is said.
        public var iso15693: Bool?
        /// Why it does not, or why that is not known; nil where it does.
        public var reason: String?
        /// The published code of the error behind `reason`, where there is one.
        public var code: String?
    }

    /// What a reader is reached through.
    public enum Transport: String, Sendable, Hashable {
        case libnfc
        case pcsc
    }

    /// Every reader there is: the one that is configured, those libnfc finds on USB, and those of PC/SC.
    ///
    /// Serial ports are never tried: what is at one is only known where it is configured. The configured reader is
    /// opened and asked what it is; one that is in use says so.
    /// - Parameter configured: the setting `nfc.reader`, where there is one.
    public func list(configured: String?) async -> [Listing] {
        var listings: [Listing] = []
        if let configured { listings.append(await look(configured)) }
        let found = await usbReaders() + pcscReaders()
        return listings + found.filter { each in !listings.contains { $0.reader == each.reader } }
    }

    private func look(_ setting: String) async -> Listing {
        var listing = Listing(reader: setting, transport: setting.hasPrefix("pcsc:") ? .pcsc : .libnfc)
        do throws(ISO15693Error) {
            switch try Self.parse(setting) {
            case .libnfc(let reader):
                let transport = LibNFCTransport(reader, program: helper, answerTime: answerTime)
                let result = await Self.identify(transport)
                await transport.close()
                let found = try result.get()
                (listing.name, listing.iso15693) = (found.name, found.speaksISO15693)
                switch found.speaksISO15693 {
                case true?: break
                case false?: (listing.reason, listing.code) = Self.words(.cannotSpeakISO15693)
                case nil: listing.reason = "the reader cannot report what it supports; hold a sensor to it to find out"
                }
            case .pcsc(let name):
                let transport = PCSCTransport(reader: name)
                let states = await Self.states(transport)
                await transport.close()
                let matching = try states.get().filter { name == nil || $0.name.hasPrefix(name ?? "") }
                guard let best = matching.map(Self.listing).max(by: { Self.rank($0) < Self.rank($1) }) else {
                    throw .noReader(name)
                }
                (listing.name, listing.iso15693) = (best.name, best.iso15693)
                (listing.reason, listing.code) = (best.reason, best.code)
            }
        } catch {
            (listing.reason, listing.code) = Self.words(error)
        }
        return listing
    }

    private func usbReaders() async -> [Listing] {
        guard let any = LibNFCReader("pn53x_usb") else { return [] }
        let transport = LibNFCTransport(any, program: helper)
        var names: [String] = []
        // Without the helper there is nothing to list; the configured reader's listing says so.
        do throws(ISO15693Error) { names = try await transport.list() } catch {}
        await transport.close()
        return names.map { name in
            Listing(
                reader: name, transport: .libnfc, iso15693: false,
                reason:
                    "libnfc finds it on USB; the chips of these readers (PN531, PN532, PN533) cannot read ISO 15693",
                code: ISO15693Error.cannotSpeakISO15693.code)
        }
    }

    private func pcscReaders() async -> [Listing] {
        let transport = PCSCTransport()
        let states = await Self.states(transport)
        await transport.close()
        return ((try? states.get()) ?? []).map(Self.listing)
    }

    private static func identify(
        _ transport: LibNFCTransport
    ) async -> Result<(name: String, speaksISO15693: Bool?), ISO15693Error> {
        do throws(ISO15693Error) { return .success(try await transport.identify()) } catch { return .failure(error) }
    }

    private static func states(
        _ transport: PCSCTransport
    ) async -> Result<[PCSCService.ReaderState], ISO15693Error> {
        do throws(ISO15693Error) { return .success(try await transport.list()) } catch { return .failure(error) }
    }

    private static func listing(_ state: PCSCService.ReaderState) -> Listing {
        var listing = Listing(reader: "pcsc:\(state.name)", transport: .pcsc, name: state.name)
        if state.hasCard, state.kind == .iso15693 {
            listing.iso15693 = true
            return listing
        }
        switch KnownReader(name: state.name) {
        case .reads: listing.iso15693 = true
        case .doesNot:
            listing.iso15693 = false
            (listing.reason, listing.code) = words(.cannotSpeakISO15693)
        case .unknown:
            listing.reason = "PC/SC readers do not report this; hold a sensor to it to find out"
        }
        return listing
    }

    private static func rank(_ listing: Listing) -> Int {
        switch listing.iso15693 {
        case true?: 2
        case nil: 1
        case false?: 0
        }
    }

    private static func words(_ error: ISO15693Error) -> (String?, String?) { (error.description, error.code) }
}

/// What is published of PC/SC readers, by the names pcscd gives them.
enum KnownReader {
    /// Its manual says that it reads ISO 15693.
    case reads
    /// Its manual says what it reads, and ISO 15693 is not among it.
    case doesNot
    case unknown

    init(name: String) {
        // A reader with several slots reads tags at one of them.
        let isOther = name.contains("SAM") || name.contains("ICC") && !name.contains("PICC")
        if !isOther, Self.reading.contains(where: name.contains) {
            self = .reads
        } else {
            self = isOther || Self.others.contains(where: name.contains) ? .doesNot : .unknown
        }
    }

    private static let reading = [
        "ACR1552", "OMNIKEY 5022", "OMNIKEY 5027", "OMNIKEY 5127", "OMNIKEY 5427", "uTrust 3700", "uTrust 3720",
    ]
    private static let others = ["ACR122", "ACR1222", "ACR1251", "ACR1252", "SCL3711"]
}
