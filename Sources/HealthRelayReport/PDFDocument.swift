import CRSVG

/// A PDF out of pages.
enum PDFDocument {
    /// The longest side of a page in points: A3 and more.
    private static let longest = 2000.0

    private final class Sink {
        var octets: [UInt8] = []
    }

    /// Makes the PDF of a job.
    static func octets(of job: Job) throws(JobError) -> [UInt8] {
        let sink = Sink()
        let surface = cairo_pdf_surface_create_for_stream(
            { context, data, count in
                guard let context, let data else { return CAIRO_STATUS_WRITE_ERROR }
                let sink = Unmanaged<Sink>.fromOpaque(context).takeUnretainedValue()
                guard sink.octets.count + Int(count) <= 2 * Input.most else { return CAIRO_STATUS_WRITE_ERROR }
                sink.octets.append(contentsOf: UnsafeBufferPointer(start: data, count: Int(count)))
                return CAIRO_STATUS_SUCCESS
            }, Unmanaged.passUnretained(sink).toOpaque(), 595.28, 841.89)
        defer { cairo_surface_destroy(surface) }
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, job.title)
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, job.author)
        // The date of the report, so that the same report is the same PDF.
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, job.date)
        let context = cairo_create(surface)
        defer { cairo_destroy(context) }
        for (number, page) in job.pages.enumerated() { try draw(page, number + 1, surface, context) }
        cairo_surface_finish(surface)
        let status = cairo_surface_status(surface)
        guard status == CAIRO_STATUS_SUCCESS else {
            throw JobError("no PDF was made: \(String(cString: cairo_status_to_string(status)))")
        }
        return withExtendedLifetime(sink) { sink.octets }
    }

    private static func draw(
        _ page: ArraySlice<UInt8>, _ number: Int, _ surface: OpaquePointer?, _ context: OpaquePointer?
    ) throws(JobError) {
        guard let handle = page.withUnsafeBufferPointer({ crsvg_read($0.baseAddress, $0.count) }) else {
            throw JobError("page \(number): expected SVG, found something else")
        }
        defer { crsvg_free(handle) }
        var (width, height) = (0.0, 0.0)
        guard crsvg_size(handle, &width, &height) != 0, (1...longest).contains(width), (1...longest).contains(height)
        else {
            throw JobError("page \(number): expected a width and a height of 1 to \(Int(longest)) points")
        }
        cairo_pdf_surface_set_size(surface, width, height)
        guard crsvg_draw(handle, context, width, height) != 0 else { throw JobError("page \(number) cannot be drawn") }
        cairo_show_page(context)
    }
}
