import GatewaySettings
import HealthReadings

extension ReadingID {
    /// An id as it was typed.
    ///
    /// - Throws: `Problem` with status 64.
    static func argument(_ text: String) throws(Problem) -> ReadingID {
        guard let id = ReadingID(text) else {
            throw Problem.usage("expected the id of a reading, 32 hexadecimal digits, found '\(text.prefix(64))'")
        }
        return id
    }
}
