/// A parser of outside bytes under fuzz.
struct FuzzTarget: Sendable {
    /// Its name on the command line.
    let name: String
    /// The longest input that is tried.
    let longest: Int
    /// Words of its language, to build inputs of.
    let words: [String]
    /// Inputs to begin with, made of the recorded captures of a folder.
    let seeds: @Sendable (_ fixtures: String) throws -> [[UInt8]]
    /// Tries one input; traps where a promise is broken.
    let run: @Sendable ([UInt8]) -> Void

    init(
        _ name: String, longest: Int, words: [String] = [],
        seeds: @escaping @Sendable (_ fixtures: String) throws -> [[UInt8]], run: @escaping @Sendable ([UInt8]) -> Void
    ) {
        (self.name, self.longest, self.words, self.seeds, self.run) = (name, longest, words, seeds, run)
    }

    /// All targets, in the order they are run.
    static let all: [FuzzTarget] = [
        .characteristic, .recordAccess, .modelFrame, .oneTouch, .omron, .microlife, .viatom, .xiaomi, .qardio,
        .recording,
        .oximeterStream, .o2ring, .o2ringRecording, .continuousGlucose, .strap, .deviceReport,
        .advertisement,
        .conversation, .btsnoop,
        .pcap,
        .pcapng, .replay,
        .monitor, .handleMap, .text, .settings,
        .control, .vitalAnswer, .sandboxBody, .busMessage, .libre, .tagAnswer, .cardAnswer, .nfcPipe,
        .entry, .healthSync, .cloud, .importedSample, .appleHealth, .libreView, .readingCSV,
        .fleetBatch, .fleetSealed, .fleetAnswer, .fleetReport, .fleetName, .fleetEnrolment, .fleetAuthority,
    ]
}

/// Breaks off with a message: libFuzzer then keeps the input.
func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError(message()) }
}

extension [String] {
    /// Texts as inputs.
    var inputs: [[UInt8]] { map { text in [UInt8](text.utf8) } }
}
