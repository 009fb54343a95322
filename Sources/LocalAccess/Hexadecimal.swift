/// Octets as text.
enum Hexadecimal {
    /// Two digits an octet, in lower case.
    static func text(_ octets: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: octets.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
