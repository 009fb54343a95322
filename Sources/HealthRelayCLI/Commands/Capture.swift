import ArgumentParser
import Foundation
import GatewaySettings
import HCICapture
import HealthReadings
import Logging

struct Capture: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capture", abstract: "Record a Bluetooth adapter's traffic until Ctrl-C.",
        discussion: """
            A btsnoop file (datalink 2001) that `healthrelay replay`, btmon and Wireshark read. Keys are zeroed. The program
            healthrelay-capture does the recording; it needs the capability CAP_NET_RAW.
            """)

    @Argument(help: "The new file; an existing one is not touched.", completion: .file())
    var file: String
    @Option(
        help: ArgumentHelp("The adapter, hci0 or its address (default: the first one in use).", valueName: "adapter"))
    var adapter: String?
    @Option(help: ArgumentHelp("Keep only this device's traffic.", valueName: "address"))
    var device: String?
    @Flag(
        help: "Keep keys and passkeys. Anybody who has the file can then decrypt traffic and impersonate the devices.")
    var keepKeys = false
    @Flag(help: "Do not ask.")
    var yes = false
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        let narrator = CaptureNarrator(file: file, json: global.json)
        var arguments: [String] = []
        if let device {
            guard let address = DeviceAddress(device) else {
                throw Problem.usage("--device: expected an address such as C0:00:00:00:18:08, found '\(device)'")
            }
            arguments += ["--device", address.description]
        }
        if let adapter = adapter ?? settings["bluetooth.adapter"] {
            guard adapter != "none" else {
                throw Problem(
                    "bluetooth_disabled", .configuration,
                    "the settings disable Bluetooth: `bluetooth.adapter` is none",
                    hint: "name the adapter to record: `--adapter hci0`")
            }
            arguments += ["--adapter", adapter]
        }
        if keepKeys { arguments.append("--keep-keys") }

        // A symbolic link counts, wherever it leads.
        if (try? FileManager.default.attributesOfItem(atPath: file)) != nil {
            throw Problem(
                "capture_exists", .cannotCreate, "\(file) already exists",
                hint: "name another file, or remove this one")
        }
        let helper = try CaptureHelperLocation.find()
        narrator.warn(isOfOneDevice: device != nil, keepsKeys: keepKeys)
        if !yes { try narrator.confirm() }
        // A file that may grow no further is an error to report, not a reason to die.
        signal(SIGXFSZ, SIG_IGN)
        let recording = CaptureRecording(file: file, helper: helper, arguments: arguments, tell: narrator.tell)
        let (summary, problem) = await recording.run()
        if let summary { narrator.end(summary) }
        if let problem { throw problem }
    }
}

/// What a person is told about a recording, in text or as JSON lines.
struct CaptureNarrator: Sendable {
    let file: String
    let json: Bool
    private let logger = Logger(label: "healthrelay.capture")
    private let lastLogged = SharedSeconds()
    private let isLive = isatty(2) == 1

    /// How often a recording that nobody watches is told of, in seconds.
    private static let pause: Int64 = 60

    init(file: String, json: Bool) { (self.file, self.json) = (file, json) }

    func warn(isOfOneDevice: Bool, keepsKeys: Bool) {
        let who =
            isOfOneDevice
            ? "\(file) will contain the device's measurements and everything else that it sends."
            : """
            Everything the adapter says and hears will be in \(file): what your meters measured, and the traffic of every other \
            device it is connected with or hears, with names and addresses. What is typed on a Bluetooth keyboard is in it.
            """
        let keys =
            keepsKeys
            ? "Keys and passkeys are KEPT: anybody who has the file can decrypt these devices' traffic and impersonate them."
            : "Keys and passkeys are zeroed."
        let advice = "Only you can read the file (mode 0600). Think before you share it."
        if json {
            logger.warning("\(who) \(keys) \(advice)")
        } else {
            Terminal.errorText([who, keys, advice].joined(separator: "\n"))
        }
    }

    func confirm() throws(Problem) {
        try TerminalInput.require(because: "a recording must be confirmed", hint: "say --yes")
        Terminal.errorPart("Record? [y/N] ")
        let answer = readLine()?.lowercased() ?? ""
        guard ["y", "yes"].contains(answer) else {
            throw Problem("not_confirmed", .usage, "nothing was recorded")
        }
    }

    @Sendable func tell(_ progress: CaptureRecording.Progress) {
        switch progress {
        case .began(let adapter):
            say("Recording \(adapter) into \(file); Ctrl-C ends it.", ["adapter": "\(adapter)", "file": "\(file)"])
        case .note(let code, let message):
            if json {
                logger.warning("\(message)", metadata: ["code": "\(code)"])
            } else {
                Terminal.errorPart(clear)
                Terminal.error(message)
            }
        case .recorded(let summary):
            if isLive, !json { return Terminal.errorPart("\r" + clear + summary.line) }
            guard lastLogged.isDue(summary.endedAt.seconds, every: Self.pause, from: summary.startedAt.seconds) else {
                return
            }
            say(
                summary.line,
                [
                    "packets": "\(summary.packets)", "octets": "\(summary.octets)", "dropped": "\(summary.dropped)",
                ])
        }
    }

    func end(_ summary: CaptureRecording.Summary) {
        if isLive, !json { Terminal.errorPart("\r" + clear) }
        Terminal.data(json ? summary.document.text : "\(file): \(summary.line)")
    }

    /// Empties a terminal's line.
    private var clear: String { isLive ? "\u{1B}[K" : "" }

    private func say(_ text: String, _ details: Logger.Metadata) {
        if json { logger.info("recording", metadata: details) } else { Terminal.error(text) }
    }
}
