import CQRencode
import Foundation

/// A text as a QR code (ISO/IEC 18004), made by libqrencode.
public struct QRCode: Sendable, Hashable {
    /// The modules row by row, without the quiet zone; true is dark.
    public let rows: [[Bool]]

    /// Makes a code with the error correction of level M; nil where the text is too long for one.
    public init?(_ text: String) {
        guard let code = QRcode_encodeString(text, 0, QR_ECLEVEL_M, QR_MODE_8, 1) else { return nil }
        defer { QRcode_free(code) }
        let width = Int(code.pointee.width)
        guard width > 0, let modules = code.pointee.data else { return nil }
        rows = (0..<width).map { row in (0..<width).map { modules[row * width + $0] & 1 == 1 } }
    }

    /// Lines for a terminal, two rows of modules each, with the quiet zone; black on white whatever the terminal's own
    /// colours are.
    public var lines: [String] {
        let margin = 2
        let width = rows.count + 2 * margin
        func isDark(_ row: Int, _ column: Int) -> Bool {
            rows.indices.contains(row - margin) && rows.indices.contains(column - margin)
                && rows[row - margin][column - margin]
        }
        return stride(from: 0, to: width, by: 2).map { row in
            let cells = (0..<width).map { column in
                switch (isDark(row, column), isDark(row + 1, column)) {
                case (true, true): "█"
                case (true, false): "▀"
                case (false, true): "▄"
                case (false, false): " "
                }
            }
            return "\u{1B}[30;107m" + cells.joined() + "\u{1B}[0m"
        }
    }
}
