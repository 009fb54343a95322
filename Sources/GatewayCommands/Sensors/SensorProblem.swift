import FreeStyleLibre
import GatewaySettings
import ISO15693Reader
import LibreReader

extension Problem {
    /// Why a sensor was not read.
    ///
    /// 65: what came is no memory of a sensor that is read; 69: there is no reader that can; 74: the reader failed; 75:
    /// it may go well the next time; 77: the system refuses the reader; 78: something must be set first.
    init(_ error: LibreReadError) {
        let status: ExitStatus =
            switch error {
            case .exchange(let error, _): error.status
            case .notASensor, .foreignSensor, .unknownModel: .badData
            case .sensorSwapped: .tryAgain
            }
        self.init(error.code, status, error.description, hint: error.hint)
    }

    init(_ error: ISO15693Error) {
        self.init(error.code, error.status, error.description, hint: error.hint)
    }
}

extension ISO15693Error {
    fileprivate var status: Problem.ExitStatus {
        switch self {
        case .noTag, .tagLeft, .tagSilent, .badCRC, .helperDied, .cancelled: .tryAgain
        case .otherTag: .badData
        case .tag, .malformedAnswer: .protocolBroken
        case .badReaderName: .configuration
        case .noReader, .portInUse, .portGone, .readerSilent, .cannotSpeakISO15693, .readerCannotAsk, .helperMissing,
            .noPCSCService:
            .unavailable
        case .notPermitted: .notPermitted
        case .reader, .helperFailed: .inputOutput
        }
    }
}
